"""What Sortie costs, measured. `python3 dev.py bench` runs everything and prints ratios to bare processes."""
