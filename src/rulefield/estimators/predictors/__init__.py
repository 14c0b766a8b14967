"""Classifiers and regressors of other libraries inside structured models."""
