"""One run: what it is to do, and the loop of turns that does it."""
