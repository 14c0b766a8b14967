"""Objectives and learners of linear chains."""
