"""placeholder until merged"""

FILE = "error_report.md"
TITLE = "# Error Report"


def error_report(kind: str, description: str, attempted: str, suggestion: str, partial: str) -> str:
    return f"{TITLE}\n\n## Error Type\n\n{kind}\n\n## Description\n\n{description}\n\n## Attempted Recovery\n\n{attempted}\n\n## Suggested Resolution\n\n{suggestion}\n\n## Partial Work\n\n{partial}\n"
