"""Objectives and the optimisers that minimise them."""
