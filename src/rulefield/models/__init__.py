"""Models turn weights and data into potentials, and pull gradients back."""
