"""One script for each claim of the documentation; each prints its numbers and keeps them in experiments/results/."""
