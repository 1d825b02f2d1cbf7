"""WORKFLOW.md: load it, check it, render its prompt, notice its changes."""
