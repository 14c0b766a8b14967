"""Inference over segmentations: exact ones, decoding under rules, sums under rules."""
