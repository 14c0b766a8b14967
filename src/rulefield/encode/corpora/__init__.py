"""Corpora on disk: encoded once into parts that are mapped into memory when they are worked on."""
