"""Mistakes in what a particle believes about theta."""

from benchmarks.mutants.mutant import Mutant

CONJUGATE = "beliefs/test_conjugate.py"
TAYLOR = "beliefs/test_taylor.py"
MATCHED = "beliefs/test_moment_matched.py"

MUTANTS = (
    Mutant(
        "missing observations are counted as data about the noise",
        "beliefs/conjugate.py",
        "count = jnp.sum(observed[rows]).astype(residual.dtype)",
        "count = jnp.asarray(len(rows), residual.dtype)",
        (f"{CONJUGATE}::test_observation_variance_ignores_missing_observations",),
    ),
    Mutant(
        "the blurred transition is centred without the prior mean",
        "beliefs/conjugate.py",
        "jnp.asarray(structure.coefficient_mean[places], z.dtype) + mean)",
        "mean)",
        ("proposals/test_blur.py",),
    ),
    Mutant(
        "noise is coloured by the factor instead of its transpose",
        "beliefs/conjugate_blocks.py",
        "noise = solve_upper(posterior_factor.T, normal)",
        "noise = solve_lower(posterior_factor, normal)",
        (f"{CONJUGATE}::test_draws_of_correlated_coefficients_have_their_covariance",),
    ),
    Mutant(
        "the rate of a variance grows by the square, not by half of it",
        "beliefs/conjugate_blocks.py",
        "return self.shape + 0.5 * count, self.rate + 0.5 * square",
        "return self.shape + 0.5 * count, self.rate + square",
        (f"{CONJUGATE}::test_unknown_process_variance_is_inverse_gamma",),
    ),
    Mutant(
        "the determinant is missing when coefficients are integrated out",
        "beliefs/conjugate_blocks.py",
        "- 0.5 * jnp.sum(jnp.log1p(gains / variance))",
        "- 0.0 * jnp.sum(jnp.log1p(gains / variance))",
        (f"{CONJUGATE}::test_coefficient_and_variance_together_are_exact",),
    ),
    Mutant(
        "a variance is used as a standard deviation in a draw",
        "beliefs/conjugate_blocks.py",
        "mean + jnp.sqrt(variance) * jax.random.normal(key_delta",
        "mean + variance * jax.random.normal(key_delta",
        (f"{CONJUGATE}::test_coefficient_and_variance_draws_have_the_right_moments",),
    ),
    Mutant(
        "the prior is counted again with each datum",
        "beliefs/chebyshev.py",
        "values = settled.values + terms",
        "values = self._with_prior(settled) + terms",
        ("beliefs/test_chebyshev.py::test_sin_given_the_states_is_right",),
    ),
    Mutant(
        "the second parameter is drawn from its marginal",
        "beliefs/chebyshev.py",
        "self._slice(statistic, u_first))",
        "jax.nn.logsumexp(log_density, axis=0))",
        ("beliefs/test_chebyshev.py::test_draws_of_two_parameters_are_correlated_as_the_belief_is",),
    ),
    Mutant(
        "the stretch of the window is missing from its density",
        "beliefs/window.py",
        "self.half_width * self.sharpness * jnp.cosh(self.sharpness * u) / jnp.sinh(self.sharpness)",
        "self.half_width * self.sharpness / jnp.sinh(self.sharpness)",
        ("beliefs/test_window.py",),
    ),
    Mutant(
        "new pivots keep the reference of the old ones",
        "beliefs/cross_interpolation.py",
        "(table.pivots) - self._weights(old, spread.mean)",
        "(table.pivots)",
        ("beliefs/test_cross_interpolation.py::test_an_autoregression_is_exact_with_four_numbers",),
    ),
    Mutant(
        "the volume of the fitted Gaussian is missing from the normaliser",
        "beliefs/cross_interpolation.py",
        "- jnp.log(len(standard)) + log_det",
        "- jnp.log(len(standard))",
        ("beliefs/test_cross_interpolation.py::test_density_is_normalised",),
    ),
    Mutant(
        "moments are matched about the old mean",
        "beliefs/moment_matched.py",
        "centred = standard - mean",
        "centred = standard",
        (f"{MATCHED}::test_coefficient_with_a_normal_prior_is_exact",),
    ),
    Mutant(
        "factors of covariances are multiplied in the wrong order",
        "beliefs/moment_matched.py",
        "before.factor @ factor, misses)",
        "factor @ before.factor, misses)",
        (f"{MATCHED}::test_correlated_coefficients_are_matched[2-1e-05]",),
    ),
    Mutant(
        "a sharp datum is taken in whole with each of its parts",
        "beliefs/moment_matched.py",
        "jnp.where(jnp.isfinite(terms), share * terms, -jnp.inf)",
        "jnp.where(jnp.isfinite(terms), terms, -jnp.inf)",
        (f"{MATCHED}::test_sharp_datum_is_taken_in_by_parts_and_does_not_collapse_the_belief",),
    ),
    Mutant(
        "all blocks of parameters are drawn with one key",
        "beliefs/blocks.py",
        "z, outcome = previous, no_outcome()\n        keys = jax.random.split(key, len(self.bound))",
        "z, outcome = previous, no_outcome()\n        keys = [key] * len(self.bound)",
        ("beliefs/test_blocks.py::test_draws_of_two_blocks_stand_in_their_places",),
    ),
    Mutant(
        "an observation is expanded at the previous state",
        "beliefs/taylor_of_mean.py",
        "score(lambda theta: model.observation(theta, datum.x, datum.inputs), value)",
        "score(lambda theta: model.observation(theta, datum.x_prev, datum.inputs), value)",
        (f"{TAYLOR}::test_two_parameters_in_transition_observation_and_initial_law",),
    ),
    Mutant(
        "the log density is expanded at zero and used at the centre",
        "beliefs/taylor_of_log_density.py",
        "log_density(coordinates.to_z(u))",
        "log_density(jnp.asarray(coordinates.scale, u.dtype) * u)",
        (f"{TAYLOR}::test_a_linear_model_is_expanded_without_error",),
    ),
    Mutant(
        "an importance sum is not divided by the number of points",
        "beliefs/log_polynomial.py",
        "log_total - jnp.log(len(nodes))",
        "log_total",
        (f"{TAYLOR}::test_moments_and_density_in_two_dimensions_agree_with_quadrature",),
    ),
    Mutant(
        "the whitener is not the inverse of the factor",
        "beliefs/quadratic_fit.py",
        "lower.T @ self.whitener",
        "lower @ self.whitener",
        ("beliefs/test_quadratic_fit.py",),
    ),
    Mutant(
        "a constant miss counts as an error",
        "beliefs/accuracy.py",
        "centred = misses - jnp.sum(weights * misses)",
        "centred = misses",
        ("beliefs/test_accuracy.py",),
    ),
    Mutant(
        "the distance of the means is missing from the spread of a mixture",
        "beliefs/spread.py",
        "return part.factor @ part.factor.T + jnp.outer(part.mean - mean, part.mean - mean)",
        "return part.factor @ part.factor.T",
        ("beliefs/test_spread.py",),
    ),
    Mutant(
        "the reservoir prefers recent data",
        "beliefs/reservoir.py",
        "0, jnp.maximum(first + KEPT_PER_STEP, 1))",
        "0, size)",
        ("beliefs/test_reservoir.py",),
    ),
)
