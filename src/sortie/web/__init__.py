"""Dashboard, HTTP API and metrics: a process of its own that reads the store and leaves commands in it."""
