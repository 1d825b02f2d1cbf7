"""The child process that sends notifications: it follows the event log."""
