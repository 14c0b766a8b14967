"""Kernels of graphs."""
