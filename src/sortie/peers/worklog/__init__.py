"""WORKLOG.md: read in every form people write, written in the forms of the document."""
