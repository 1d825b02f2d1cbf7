"""What there is to do, how each item is run, and how its end is judged."""
