"""OpenAI Codex."""
