"""GraphCRF, MultiLabelCRF and what they are made of."""
