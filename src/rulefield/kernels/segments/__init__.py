"""Kernels of segmentations."""
