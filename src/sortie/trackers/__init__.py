"""Where issues come from and where verdicts go: one Protocol, one module for each kind of tracker."""
