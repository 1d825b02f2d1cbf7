"""MAILBOX.md: messages between peers, newest first, with everything derived computed from them."""
