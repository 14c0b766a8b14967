"""Rules found: proposed from templates, mined from data, checked, priced."""
