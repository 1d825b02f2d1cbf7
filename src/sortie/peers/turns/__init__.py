"""One turn of one agent in the shared checkout: what it is told, what it changed, what is recorded of it."""
