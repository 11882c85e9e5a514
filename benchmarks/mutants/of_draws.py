"""Mistakes in proposals, resampling and theta samplers."""

from benchmarks.mutants.mutant import Mutant

GUIDED = "proposals/test_guided.py"
CHAINS = "theta_samplers/test_markov_chains.py::test_the_density_is_left_invariant"

MUTANTS = (
    Mutant(
        "the observation is scored at the previous state",
        "proposals/bootstrap.py",
        "self.model.observation_log_prob(theta, x, y, inputs)",
        "self.model.observation_log_prob(theta, x_prev, y, inputs)",
        ("filters/test_islands.py::test_shares_stay_equal_and_evidence_is_the_pool",),
    ),
    Mutant(
        "the determinant is missing from the predictive density",
        "proposals/gaussian_product.py",
        "- jnp.sum(jnp.log(jnp.diagonal(root)))",
        "- 0.0 * jnp.sum(jnp.log(jnp.diagonal(root)))",
        (f"{GUIDED}::test_gaussian_moves_are_exact",),
    ),
    Mutant(
        "the spread of theta is left out of the blurred transition",
        "gaussian.py",
        "cholesky(self.covariance + columns @ columns.T)",
        "cholesky(self.covariance)",
        ("proposals/test_blur.py",),
    ),
    Mutant(
        "the transition's share is missing from the proposal density",
        "proposals/laplace_product.py",
        "log_proposal = jax.nn.logsumexp(shares + jnp.concatenate([log_near, log_transition[None]]))",
        "log_proposal = jax.nn.logsumexp(plan.log_shares + log_near)",
        (f"{GUIDED}::test_approximate_moves_are_weighted_right[volatility]",),
    ),
    Mutant(
        "the Jacobian of the fitted factor is missing",
        "proposals/laplace_product.py",
        "return student.log_density(standard) - jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))",
        "return student.log_density(standard)",
        (f"{GUIDED}::test_approximate_moves_are_weighted_right[volatility]",),
    ),
    Mutant(
        "all slots share one random number",
        "resampling/stratified.py",
        "points = jax.random.bits(key, log_weights.shape, jnp.uint32)",
        "points = jnp.broadcast_to(jax.random.bits(key, dtype=jnp.uint32), log_weights.shape)",
        ("resampling/test_resampling_law.py::test_counts_vary_together_as_those_of_blackjax_do[Stratified()]",),
    ),
    Mutant(
        "a point counts wherever it lies in its slot",
        "resampling/multinomial.py",
        "return count + ((candidate < beyond) & is_before).astype(jnp.int32)",
        "return count + (candidate < beyond).astype(jnp.int32)",
        ("resampling/test_resampling_law.py::test_expected_counts_are_n_times_the_weights_in_float32[Multinomial()]",),
    ),
    Mutant(
        "weights are kept after resampling",
        "resampling/slots.py",
        "log_weights=jnp.full_like(log_weights, equal)",
        "log_weights=jnp.where(is_alive, log_weights, equal)",
        ("resampling/test_when_ess_below.py::test_uneven_weights_are_resampled_by_the_scheme",),
    ),
    Mutant(
        "weights are made equal although nothing was resampled",
        "resampling/when_ess_below.py",
        "log_weights=normalise(log_weights)[0]",
        "log_weights=normalise(jnp.zeros_like(log_weights))[0]",
        ("resampling/test_when_ess_below.py::test_even_weights_are_left_alone_but_normalised",),
    ),
    Mutant(
        "the proposal density is missing at the point where a chain is",
        "theta_samplers/independence.py",
        "favour = way_back - student.log_density(standard)",
        "favour = -student.log_density(standard)",
        (f"{CHAINS}[independence]",),
    ),
    Mutant(
        "a worse point is never accepted",
        "theta_samplers/base.py",
        "wins = jnp.log(jax.random.uniform(key, dtype=here.z.dtype)) < gain",
        "wins = gain > 0",
        (f"{CHAINS}[random walk]",),
    ),
    Mutant(
        "the level of a slice lies a uniform step down, not an exponential one",
        "theta_samplers/slice.py",
        "+ jnp.log(jax.random.uniform(key_level, dtype=dtype))",
        "- jax.random.uniform(key_level, dtype=dtype)",
        (f"{CHAINS}[slice]",),
    ),
    Mutant(
        "a slice hands on the density of where it was",
        "theta_samplers/slice.py",
        "return Here(here.z + offset * direction, found)",
        "return Here(here.z + offset * direction, here.log_density)",
        ("theta_samplers/test_markov_chains.py::test_the_density_is_reached_from_afar[slice]",),
    ),
    Mutant(
        "the spacing of the grid is missing from the normaliser",
        "theta_samplers/inverse_cdf.py",
        "top + jnp.log(total) + jnp.log(points[1] - points[0])",
        "top + jnp.log(total)",
        ("theta_samplers/test_inverse_cdf.py::test_log_normaliser_and_moments_of_a_normal_are_exact",),
    ),
)
