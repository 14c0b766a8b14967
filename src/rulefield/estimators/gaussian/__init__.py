"""Gaussian CRFs and what they are made of."""
