"""The shell around core: one event loop that performs what was decided."""
