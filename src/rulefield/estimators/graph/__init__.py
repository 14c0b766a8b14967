"""GraphCRF and what it is made of."""
