"""Issues of a GitHub repository: states are labels, and whether the issue is open."""
