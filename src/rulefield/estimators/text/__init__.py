"""TextParser and what it is made of."""
