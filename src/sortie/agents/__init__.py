"""What does the work: one Protocol, one module for each kind of agent."""
