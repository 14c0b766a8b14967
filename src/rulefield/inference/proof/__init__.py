"""Proofs of what ``decode`` answers, in the form that ``rulefield.proofcheck`` checks."""
