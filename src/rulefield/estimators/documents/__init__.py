"""Estimators of documents."""
