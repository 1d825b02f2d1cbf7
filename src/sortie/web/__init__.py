"""Dashboard, HTTP API and metrics: a separate process that reads the store and writes commands to it."""
