"""Engines for graphs under logic."""
