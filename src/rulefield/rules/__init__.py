"""What a rule is: the language, its meaning, and its compilation for one input."""
