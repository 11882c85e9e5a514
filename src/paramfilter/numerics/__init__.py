"""Arithmetic that knows nothing of models: weights, sums, small matrices, polynomials, ranks."""
