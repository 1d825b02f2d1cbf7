"""For whoever adds a part of their own: the contract of its kind as tests to inherit, and fakes that keep it.

The contracts need pytest and are imported by nothing else in this package.
"""
