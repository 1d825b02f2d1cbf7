"""For whoever adds a part of their own: the contract of its kind as tests to inherit, and fakes that keep it.

The contracts (`tracker_contract`, `host_contract`) need pytest, which nothing else in this package imports.
"""
