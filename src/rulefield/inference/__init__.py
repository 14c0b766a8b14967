"""Engines and their results: a problem goes in, a Result that says how sure it is comes out."""
