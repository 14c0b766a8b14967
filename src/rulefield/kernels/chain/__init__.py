"""Kernels of linear chains."""
