"""A package that cannot be imported."""

raise RuntimeError("half installed")
