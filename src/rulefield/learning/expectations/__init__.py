"""Expectations kept while training: posterior regularization and its relatives."""
