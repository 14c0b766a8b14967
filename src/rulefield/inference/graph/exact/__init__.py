"""Exact searches on graphs."""
