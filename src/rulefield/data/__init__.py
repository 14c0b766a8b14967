"""Frozen containers: sequences, typed graphs, labels."""
