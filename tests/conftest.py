"""Puts this folder on the import path (pytest does so for a folder with a conftest): tests import ``oracles``."""
