"""Mistakes in what everything else stands on: weights, parameters, distributions, matrices, series, separability."""

from benchmarks.mutants.mutant import Mutant

GAUSSIAN_MOVES = "proposals/test_guided.py::test_gaussian_moves_are_exact"
MISSING = "filters/test_bad_input.py"

MUTANTS = (
    Mutant(
        "the largest weight is missing from the total",
        "weights.py",
        "log_relative - log_sum), largest + log_sum",
        "log_relative - log_sum), jnp.where(is_dead, largest, log_sum)",
        ("test_weights.py::test_total_of_weights_is_found_far_from_zero",),
    ),
    Mutant(
        "the effective sample size is one over the largest weight",
        "weights.py",
        "size = total * (total / sum_of_squares)",
        "size = total",
        ("test_weights.py::test_effective_sample_size_is_that_of_kong_liu_and_wong",),
    ),
    Mutant(
        "a mean is taken with weights that are not normalised",
        "weights.py",
        "weights = jnp.exp(normalise(log_weights)[0]).reshape(",
        "weights = relative_weights(log_weights).reshape(",
        ("test_weights.py::test_moments_agree_with_numpy",),
    ),
    Mutant(
        "the prior in unconstrained coordinates has no Jacobian",
        "parameters.py",
        "start=self.log_volume(z))",
        "start=jnp.zeros((), z.dtype))",
        ("test_parameters.py::test_the_prior_integrates_to_one_in_the_coordinates",),
    ),
    Mutant(
        "all parameters are drawn from the prior with one key",
        "parameters.py",
        "self.prior[name].sample(k)",
        "self.prior[name].sample(key)",
        ("test_parameters.py::test_parameters_are_drawn_independently",),
    ),
    Mutant(
        "a missing component is scored as if it were zero",
        "distributions.py",
        "return jnp.sum(jnp.where(observed, scores, 0.0))",
        "return jnp.sum(scores)",
        (f"{MISSING}::test_missing_components_drop_out_one_by_one",),
    ),
    Mutant(
        "missing components of a joint Gaussian keep their constant",
        "distributions.py",
        "return jnp.sum(score + 0.5 * jnp.log(2 * jnp.pi) * num_missing)",
        "return jnp.sum(score)",
        (f"{MISSING}::test_missing_components_drop_out_one_by_one",),
    ),
    Mutant(
        "all parts of a state are drawn with one key",
        "distributions.py",
        "else jax.random.split(key, len(leaves))",
        "else [key] * len(leaves)",
        ("test_distributions.py",),
    ),
    Mutant(
        "what a sum has lost so far is forgotten",
        "compensated.py",
        "jnp.where(jnp.isfinite(rounded), self.lost + error, 0.0)",
        "jnp.where(jnp.isfinite(rounded), error, 0.0)",
        ("test_compensated.py::test_ten_million_float32_terms_are_added_to_seven_digits",),
    ),
    Mutant(
        "residuals are divided by the variance",
        "gaussian.py",
        "return columns / self.scale.reshape(",
        "return columns / (self.scale**2).reshape(",
        (GAUSSIAN_MOVES,),
    ),
    Mutant(
        "missing components count in the constant of a Gaussian",
        "gaussian.py",
        "jnp.where(observed, jnp.log(deviations) + 0.5 * jnp.log(2 * jnp.pi), 0.0)",
        "jnp.log(deviations) + 0.5 * jnp.log(2 * jnp.pi)",
        (GAUSSIAN_MOVES,),
    ),
    Mutant(
        "the diagonal of a Cholesky factor forgets its row",
        "small_matrices.py",
        "jnp.sqrt(matrix[i, i] - _dot(row, row))",
        "jnp.sqrt(matrix[i, i])",
        (GAUSSIAN_MOVES,),
    ),
    Mutant(
        "the power of a Student density ignores the dimension",
        "student.py",
        "return constant - 0.5 * total * jnp.log1p",
        "return constant - 0.5 * DEGREES_OF_FREEDOM * jnp.log1p",
        ("proposals/test_guided.py::test_approximate_moves_are_weighted_right[volatility]",),
    ),
    Mutant(
        "the scale of a Student draw is off by the square root of two",
        "student.py",
        "jnp.sqrt(2.0 * jnp.sum(halves) / DEGREES_OF_FREEDOM)",
        "jnp.sqrt(jnp.sum(halves) / DEGREES_OF_FREEDOM)",
        ("proposals/test_guided.py::test_approximate_moves_are_weighted_right[volatility]",),
    ),
    Mutant(
        "the end points of an interpolation count in full",
        "polynomials/chebyshev.py",
        "signs[[0, -1]] *= 0.5",
        "signs[[0, -1]] *= 1.0",
        ("beliefs/test_chebyshev.py::test_interpolation_is_exact_for_polynomials",),
    ),
    Mutant(
        "mixed products are counted once in a squared series",
        "polynomials/series.py",
        "return _total([None if pairs is None else 2 * pairs, middle])",
        "return _total([pairs, middle])",
        ("polynomials/test_taylor_table.py::test_coefficients_agree_with_mpmath[division]",),
    ),
    Mutant(
        "a belief absorbs y with the previous state",
        "separability/dependence.py",
        "total += self.model.observation_log_prob(theta, datum.x, datum.y, datum.inputs)",
        "total += self.model.observation_log_prob(theta, datum.x_prev, datum.y, datum.inputs)",
        ("beliefs/test_blocks.py::test_two_blocks_have_the_moments_of_the_joint_posterior",),
    ),
    Mutant(
        "residuals of a regression have the wrong sign",
        "separability/linear_structure.py",
        "values - gaussian.mean, 0.0)",
        "gaussian.mean - values, 0.0)",
        ("beliefs/test_conjugate.py::test_matrix_regression_is_the_kalman_update_of_the_paper",),
    ),
    Mutant(
        "the scales of the rows are missing from the inverse of a cross",
        "separability/cross.py",
        "scaled.columns[columns][:, None] * inverse * scaled.rows[rows]",
        "scaled.columns[columns][:, None] * inverse",
        ("beliefs/test_cross_interpolation.py::test_an_autoregression_is_exact_with_four_numbers",),
    ),
    Mutant(
        "the Kalman filter's likelihood has no determinant",
        "references/kalman.py",
        "score = -0.5 * (jnp.log(2 * jnp.pi * variance) + residual**2 / variance)",
        "score = -0.5 * (jnp.log(2 * jnp.pi) + residual**2 / variance)",
        ("references/test_kalman_grid.py::test_ar1_agrees_with_the_dense_gaussian_and_adaptive_quadrature",),
    ),
)
