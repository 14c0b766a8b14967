"""MultiLabelCRF and what it is made of."""
