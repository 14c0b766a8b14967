"""Kernels of several tasks in one chain."""
