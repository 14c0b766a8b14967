"""Objectives and the optimizers that minimize them."""
