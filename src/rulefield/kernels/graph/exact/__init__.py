"""Kernels of exact searches on graphs."""
