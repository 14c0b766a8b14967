"""Rules on graphs, compiled for one graph."""
