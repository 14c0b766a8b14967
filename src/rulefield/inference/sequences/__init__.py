"""Engines for linear chains under rules."""
