"""Numba only: flat arrays in, flat arrays out; no classes, no checks."""
