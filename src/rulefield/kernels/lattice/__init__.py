"""Kernels of chains under rules: lattices of labels and rule states."""
