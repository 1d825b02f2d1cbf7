"""The pure part: what an issue is, what state we keep, and what to do next. No I/O, no clock, no chance."""
