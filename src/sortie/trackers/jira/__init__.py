"""Issues of a Jira Cloud project."""
