"""SegmentCRF and what it is made of."""
