"""Points of a prior with weights, as nodes are."""

import jax
import numpy as np


def nodes_of(log_likelihood, dimension=2, size=400, seed=0):
    """Return points of a normal prior, their log likelihoods and log priors, and their weights."""
    z = np.asarray(jax.random.normal(jax.random.key(seed), (size, dimension)), float)
    log_prior = -0.5 * np.sum(z**2, axis=1)
    values = log_likelihood(z)
    weights = np.exp(log_prior + values - np.max(log_prior + values))
    return z, values, log_prior, weights / np.sum(weights)
