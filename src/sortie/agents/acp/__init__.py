"""Any agent that speaks the Agent Client Protocol."""
