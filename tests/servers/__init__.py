"""Servers that trackers are tested with: real ones, an emulator with faults in front of it, and one of our own."""
