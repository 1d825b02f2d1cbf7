"""CHARTER.md: who takes part, who owns which files, what was agreed on."""
