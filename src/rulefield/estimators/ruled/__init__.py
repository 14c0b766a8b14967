"""RuledCRF and what it is made of."""
