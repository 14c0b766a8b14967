"""Joint chains: exact sums and maxima over the product of several label sets, with rules and without."""
