"""Kernels of Gaussian fields."""
