"""Agents that take turns in one checkout, under a charter: work log, mailbox, lanes, and the turns themselves."""
