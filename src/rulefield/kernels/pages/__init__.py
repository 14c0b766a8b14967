"""Kernels of pages."""
