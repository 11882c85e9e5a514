"""Separability found by numbers: a few values of theta that stand for all of them.

Write l(d, theta) for the log density of a datum d = (x_prev, x, y), and a(d, theta) = l(d, theta) - l(d, theta_0) for
what it says about theta. If the model is separable, a(d, theta) = sum_k c_k(d) h_k(theta) with K terms, then any
matrix of values a(d_r, theta_j) has rank K, and K columns (pivots theta_k) and K rows (pivot data d_m) of it hold
everything:

    a(d, theta) = a(d, theta_.) M^{-1} a(d_., theta),        M_mk = a(d_m, theta_k).

For other models the same formula interpolates, and the residual of the matrix tells how well: this is the cross
(skeleton, CUR) decomposition; Goreinov, Tyrtyshnikov and Zamarashkin (1997), A theory of pseudoskeleton approximations,
Linear Algebra Appl. 261. Pivots are chosen greedily by a QR factorisation with column pivoting, first of the columns,
then of the rows of the chosen columns, so that errors are small on average over data, and weights stay moderate.

>>> import jax.numpy as jnp
>>> theta, data = jnp.linspace(-1, 1, 30), jnp.linspace(0, 2, 40)
>>> matrix = jnp.outer(data, theta) + jnp.outer(data**2, theta**2)
>>> pivots = greedy_columns(matrix, 4)
>>> bool(pivots.residuals[1] > 1e-3) and bool(pivots.residuals[2] < 1e-5)
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.inspect.once import once_per_model
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.tracing import evaluate, strongly_typed
from paramfilter.types import KeyArray

NUM_DATA = 1024
NUM_DRAWS = 512
"""Simulated data and thetas from the prior that a model is decomposed on."""

FEW_PARAMETERS = 3
MAX_PIVOTS_FEW = 60
MAX_PIVOTS_MANY = 96

EXACT = 1e-10
"""Residual, relative to the first, below which a decomposition in float64 is exact."""

TOLERANCE = 1e-8
"""Residual in nats that is good enough for data of any length: the posterior narrows faster than the errors add up."""

TYPICAL_NATS = 10.0

LEAST_SIZE = 1e-5
"""Singular value, in nats, below which a combination of pivots is dropped; more in float32, whose noise is larger."""

WIDER = 2.0
"""Half of the thetas of a decomposition are drawn from the prior and spread out by this factor."""

WIDER_COUNTS = 0.1

IMPOSSIBLE = 1e4
"""Nats by which one datum speaks against a theta that is never to be believed."""

MOSTLY = 0.95
"""Share of the data that must be possible under a pivot."""

NUM_FRESH = 64
MADE_ON, HELD_BACK = slice(NUM_DATA), slice(NUM_DATA, None)
FAR = 2.5
HELD = 1e-6
"""An exact decomposition must hold to this relative error on fresh data and thetas spread out by the factor before."""

GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0
"""Multiples of it, modulo 1, are spread evenly."""

MAX_BURN_IN = 32
"""Steps from x_0 before a transition is taken as typical data; each path takes a number of its own below this."""

STRETCH = 2.0
"""How much farther out some of the typical states are taken. On STAR, 20 data sets given the true states, three
posteriors out of 20 are lost without it (factor 1), and none with a factor of 1.5, 2 or 3."""

FAR_OUT = 30.0
"""Robust standard deviations beyond which a simulated state is an explosion of an unlikely theta, and is left out."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pivots:
    """Columns chosen one after another.

    Attributes:
        columns: Their indices.
        residuals: The largest rms (over rows) of what is left of any column, before each choice.
    """

    columns: Int[Array, " pivot"]
    residuals: Float[Array, " pivot"]


def greedy_columns(matrix: Float[Array, "row column"], num_pivots: int) -> Pivots:
    """Choose columns that span the others best, by QR with column pivoting."""
    num_rows = matrix.shape[0]

    def choose(index, carry):
        rest, columns, residuals = carry
        norms = jnp.sqrt(jnp.mean(rest**2, axis=0))
        best = jnp.argmax(norms)
        direction = rest[:, best]
        length = jnp.linalg.norm(direction)
        direction = direction / jnp.where(length > 0, length, 1.0)
        rest = rest - jnp.outer(direction, direction @ rest)
        # Once more: a single pass loses orthogonality just when the residual is small.
        rest = rest - jnp.outer(direction, direction @ rest)
        rest = rest.at[:, best].set(0.0)
        return rest, columns.at[index].set(best.astype(jnp.int32)), residuals.at[index].set(norms[best])

    start = (matrix, jnp.zeros(num_pivots, jnp.int32), jnp.zeros(num_pivots, matrix.dtype))
    _, columns, residuals = jax.lax.fori_loop(0, min(num_pivots, num_rows), choose, start)
    return Pivots(columns, residuals)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CrossTable:
    """A cross decomposition, ready for use.

    Attributes:
        reference: theta_0, in unconstrained coordinates.
        pivots: The theta_k.
        data: The pivot data d_m, with a leading axis.
        inverse: M^{-1}, or its pseudo-inverse where pivots say the same.
    """

    reference: Float[Array, " param"]
    pivots: Float[Array, "pivot param"]
    data: Transition
    inverse: Float[Array, "pivot pivot"]


@dataclass(frozen=True, eq=False)
class PriorCross:
    """The cross decomposition of a model under its prior, in float64.

    Attributes:
        table: Pivots and pivot data.
        data: All simulated data.
        spread: Mean and Cholesky factor of the prior's draws.
        residuals: What the first K pivots leave, in nats (rms over data, of the worst theta; where a theta is so
            unlikely that its log densities are beyond `TYPICAL_NATS`, in units of that many).
        exact_rank: The size of the sufficient statistic, or None if the model has none of moderate size.
    """

    table: CrossTable
    data: Transition
    spread: tuple[np.ndarray, np.ndarray]
    residuals: np.ndarray
    exact_rank: int | None

    @property
    def size(self) -> int:
        """K."""
        return len(self.table.pivots)

    @property
    def residual(self) -> float:
        """What K pivots leave, in nats a datum."""
        return 0.0 if self.exact_rank is not None else float(self.residuals[min(self.size, len(self.residuals) - 1)])


def cross_of_prior(model: StateSpaceModel, num_pivots: int | None = None) -> PriorCross:
    """Decompose a model's log densities under its prior, once for each model.

    Args:
        model: The model.
        num_pivots: K; None for the exact rank if there is one, else what leaves `TOLERANCE`, up to a limit.
    """
    return _cross_of_prior(model, num_pivots)  # a cache takes an argument that is left out for another call


@once_per_model
def _cross_of_prior(model: StateSpaceModel, num_pivots: int | None) -> PriorCross:
    draws = model.parameters.prior_draws
    limit = num_pivots or (MAX_PIVOTS_FEW if draws.shape[1] <= FEW_PARAMETERS else MAX_PIVOTS_MANY)
    with jax.enable_x64(True):
        factors = ThetaFactors(model)
        simulated = typical_data(jax.random.key(0), model, NUM_DATA + NUM_FRESH, draws[::-1])
        data, fresh = (jax.tree.map(lambda leaf, part=part: leaf[part], simulated) for part in (MADE_ON, HELD_BACK))
        reference = jnp.asarray(np.median(draws, axis=0))
        candidates, counts = _with_wider(jnp.asarray(draws[:NUM_DRAWS]), reference)

        @jax.jit
        def decompose(data, candidates, counts, reference):
            scaled = _scaled_matrix(factors, data, candidates, counts, reference)
            return scaled, greedy_columns(scaled.matrix, limit + 1)

        scaled, greedy = decompose(data, candidates, counts, reference)
        residuals = np.asarray(greedy.residuals)
        rank = int(np.sum(residuals > EXACT * residuals[0]))
        is_exact = rank <= limit
        wanted = rank if is_exact else int(np.clip(np.sum(residuals > TOLERANCE), 1, limit))
        size = num_pivots or max(wanted, 1)
        columns = np.asarray(greedy.columns)[:size]  # a longer choice begins like a shorter one
        table = jax.jit(partial(_table, factors))(data, candidates, reference, scaled, columns)
        is_exact = is_exact and size >= rank and _holds_elsewhere(factors, table, fresh, draws)
    spread = np.mean(draws, axis=0), np.linalg.cholesky(np.atleast_2d(np.cov(draws.T)))
    return PriorCross(table, data, spread, residuals, rank if is_exact else None)


def _with_wider(
    draws: Float[Array, "draw param"], center: Float[Array, " param"]
) -> tuple[Float[Array, "draw param"], Float[Array, " draw"]]:
    """Spread half of the draws out, so that the interpolation holds also in the tails of a belief; they count less."""
    own, wider = draws[::2], center + WIDER * (draws[1::2] - center)
    return jnp.concatenate([own, wider]), jnp.concatenate([jnp.ones(len(own)), jnp.full(len(wider), WIDER_COUNTS)])


def _holds_elsewhere(factors: ThetaFactors, table: CrossTable, fresh: Transition, draws: np.ndarray) -> bool:
    """Tell whether a decomposition is exact for other data and for thetas far out, and not just where it was made."""
    z = table.reference + FAR * (jnp.asarray(draws[-NUM_FRESH:]) - table.reference)

    @jax.jit
    def both(table, fresh, z):
        at_pivots = log_density_matrix(factors, fresh, table.pivots, table.reference)
        weights = table.inverse @ log_density_matrix(factors, table.data, z, table.reference)
        return at_pivots @ weights, log_density_matrix(factors, fresh, z, table.reference)

    found, exact = (np.asarray(part) for part in both(table, fresh, z))
    is_close = np.abs(found - exact) <= HELD * np.max(np.abs(exact), axis=0, initial=1.0)
    return bool(np.all(is_close | ~np.isfinite(exact)))


def choose_pivots(
    factors: ThetaFactors,
    data: Transition,
    candidates: Float[Array, "draw param"],
    counts: Float[Array, " draw"],
    reference: Float[Array, " param"],
    num_pivots: int,
) -> tuple[CrossTable, Int[Array, " pivot"]]:
    """Choose pivots among candidate thetas and pivot data among data; `counts` says how much each candidate matters.

    Returns the decomposition, and which candidates its pivots were.
    """
    scaled = _scaled_matrix(factors, data, candidates, counts, reference)
    columns = greedy_columns(scaled.matrix, num_pivots).columns
    return _table(factors, data, candidates, reference, scaled, columns), columns


def _table(factors: ThetaFactors, data: Transition, candidates, reference, scaled: _Scaled, columns) -> CrossTable:
    """Choose as many pivot data as there are columns, and join both."""
    rows = greedy_columns(scaled.matrix[:, columns].T, len(columns)).columns
    inverse = _inverse(scaled.matrix[rows][:, columns])
    chosen = jax.tree.map(lambda leaf: leaf[rows], data)
    inverse = scaled.columns[columns][:, None] * inverse * scaled.rows[rows]
    return CrossTable(reference, candidates[columns], chosen, inverse)


def _inverse(square: Float[Array, "pivot pivot"]) -> Float[Array, "pivot pivot"]:
    """Invert, giving no weight to combinations of pivots that the data cannot tell apart: large weights are noise."""
    left, sizes, right = jnp.linalg.svd(square)
    precision = jnp.finfo(square.dtype).eps
    cutoff = jnp.maximum(64 * precision * sizes[0], jnp.maximum(LEAST_SIZE, 1e3 * precision * TYPICAL_NATS))
    return (right.T * jnp.where(sizes > cutoff, 1.0 / jnp.where(sizes > cutoff, sizes, 1.0), 0.0)) @ left.T


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Scaled:
    """The matrix times scales of its rows and columns."""

    matrix: Float[Array, "row draw"]
    rows: Float[Array, " row"]
    columns: Float[Array, " draw"]


def _scaled_matrix(factors, data, candidates, counts, reference) -> _Scaled:
    """Scale unlikely thetas and data down: they need relative accuracy only, and none where they are impossible."""
    matrix = log_density_matrix(factors, data, candidates, reference)
    is_possible = jnp.abs(matrix) < IMPOSSIBLE  # not so for NaN
    matrix = jnp.where(is_possible, matrix, 0.0)
    # A theta or a datum that is impossible with many others is no pivot at all.
    columns = jnp.where(jnp.mean(is_possible, axis=0) > MOSTLY, counts, 0.0)
    rows = jnp.where(jnp.all(is_possible | (columns == 0), axis=1), 1.0, 0.0)
    columns = columns / (1.0 + _root_mean_square(matrix * rows[:, None], axis=0) / TYPICAL_NATS)
    rows = rows / (1.0 + _root_mean_square(matrix * columns, axis=1) / TYPICAL_NATS)
    return _Scaled(rows[:, None] * matrix * columns, rows, columns)


def _root_mean_square(matrix: Float[Array, "row draw"], axis: int) -> Float[Array, " _"]:
    return jnp.sqrt(jnp.mean(matrix**2, axis=axis))


def log_densities(factors: ThetaFactors, data: Transition, z: Float[Array, " param"]) -> Float[Array, " row"]:
    """Return l(d_r, theta) for all data at one point."""
    return jax.vmap(lambda datum: factors.step(datum, z))(data)


def log_density_matrix(
    factors: ThetaFactors, data: Transition, z: Float[Array, "draw param"], reference: Float[Array, " param"]
) -> Float[Array, "row draw"]:
    """Return a(d_r, theta_j) for all data and all points."""

    columns = jax.vmap(lambda point: log_densities(factors, data, point), out_axes=1)
    matrix = columns(jnp.concatenate([reference[None], z]))
    return matrix[:, 1:] - matrix[:, :1]


def typical_data(key: KeyArray, model: StateSpaceModel, num_data: int, parameters: np.ndarray) -> Transition:
    """Simulate transitions, each from its own theta (rows of `parameters`, reused in turn) and its own path.

    One in four starts from a state that is farther out than the model went: a filter meets such states sooner or later,
    and an interpolation that has never seen any invents modes for them. Returns `num_data` transitions; paths that
    exploded or left the numbers are replaced by others.
    """
    num_paths = 2 * num_data
    z = np.resize(parameters, (num_paths, parameters.shape[1])).astype(jnp.result_type(float))
    begins = np.arange(num_paths)
    lengths = (begins * GOLDEN % 1.0 * MAX_BURN_IN).astype(int)  # spread evenly, and not in step with the parameters

    def walk(path_key, z, begin, length):
        key_initial, key_path = jax.random.split(path_key)
        theta = model.parameters.constrain(z)

        def move(index, x_now):
            inputs = model.inputs_at(begin + index)
            return strongly_typed(model.sample_transition(jax.random.fold_in(key_path, index), theta, x_now, inputs))

        x = strongly_typed(model.sample_initial(key_initial, theta, model.example_inputs))
        return jax.lax.fori_loop(0, length, move, x)

    def go_on(path_key, z, x_prev, now):
        key_x, key_y = jax.random.split(path_key)
        theta, inputs = model.parameters.constrain(z), model.inputs_at(now)
        x = strongly_typed(model.sample_transition(key_x, theta, x_prev, inputs))
        y = model.sample_observation(key_y, theta, x, inputs)
        return x, jax.tree.map(lambda leaf: leaf.astype(float), y)

    def each(path: Callable, purpose: int, *arguments):
        keys = lambda key: jax.random.split(jax.random.fold_in(key, purpose), num_paths)
        return jax.device_get(evaluate(lambda key, *rows: jax.vmap(path)(keys(key), *rows), key, *arguments))

    # NumPy stretches the states in between: the sort behind a median takes longer to compile than both walks.
    x_prev = jax.tree.map(_some_farther_out, each(walk, 0, z, begins, lengths))
    now = begins + lengths
    moving = (x_prev, *each(go_on, 1, z, x_prev, now))
    rows = np.concatenate([np.reshape(leaf, (num_paths, -1)) for leaf in jax.tree.leaves(moving)], axis=1)
    rows = np.where(np.isfinite(rows), rows, np.inf).astype(np.float64)
    middle = np.median(rows, axis=0)
    spread = np.median(np.abs(rows - middle), axis=0) * 1.4826 + 1e-12
    is_far = np.max(np.abs(rows - middle) / spread, axis=1) > FAR_OUT
    is_lost = ~np.all(np.isfinite(rows), axis=1)
    chosen = np.sort(np.argsort(is_far.astype(int) + 2 * is_lost, kind="stable")[:num_data])
    x_prev, x, y = jax.tree.map(lambda leaf: leaf[chosen], moving)
    return Transition(x_prev, x, y, model.inputs_at(now[chosen]))


def _some_farther_out(states: Float[np.ndarray, "path ..."]) -> Float[np.ndarray, "path ..."]:
    """Move every fourth state away from the median; counts and other whole numbers stay as they are."""
    if not np.issubdtype(states.dtype, np.floating):
        return states
    middle = np.nanmedian(states, axis=0)
    stretched = states.copy()
    with np.errstate(invalid="ignore", over="ignore"):  # paths that exploded are replaced by others
        stretched[::4] = middle + STRETCH * (states[::4] - middle)
    return stretched
