"""The files agents and orchestrator exchange. Standard library only, no other package of ours."""
