"""What rules should cost, learned."""
