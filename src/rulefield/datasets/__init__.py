"""Generators of data, and readers of the public sets."""
