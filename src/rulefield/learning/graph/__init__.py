"""Objectives and learners of graphs."""
