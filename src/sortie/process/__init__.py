"""Child processes that cannot outlive us unnoticed: start, listen, end with everything they started."""
