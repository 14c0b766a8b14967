"""The waist: potentials and compiled rules, plain arrays that models and rules make and engines read."""
