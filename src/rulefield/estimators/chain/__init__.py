"""ChainCRF and what it is made of."""
