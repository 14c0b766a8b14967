"""Engines for Gaussian fields."""
