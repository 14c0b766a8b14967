"""JointCRF and what it is made of."""
