"""The process that tells people when something needs them: it follows the log of events, and sends."""
