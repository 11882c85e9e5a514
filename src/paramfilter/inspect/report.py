"""Read a model and say, in a few lines, how its parameters can be learned.

Everything is found by trying the model's own log densities, in float64, at data and parameters drawn from it:

- a parameter that changes nothing cannot be taught by data;
- parameters i and j with l(z + e_i + e_j) - l(z + e_i) - l(z + e_j) + l(z) = 0 everywhere are independent given the
  states;
- a finite rank of the matrix of log densities is the size of an exact statistic (see `cross`);
- conjugacy is read off the Gaussians of the model (see `linear_structure`).

>>> import jax.numpy as jnp, numpyro.distributions as dist
>>> from paramfilter.models import sin
>>> report = inspect_model(sin())
>>> report.recommended, report.exact_rank, report.blocks
('Grid', None, (('theta',),))
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.errors import BeliefError
from paramfilter.inspect.cross import FEW_PARAMETERS, cross_of_prior, typical_data
from paramfilter.inspect.dependence import ThetaFactors, probe_data
from paramfilter.inspect.linear_structure import linear_structure
from paramfilter.model import StateSpaceModel
from paramfilter.polynomials import interpolated

NUM_PROBES = 64
NUM_TYPICAL = 256
STEP = 0.7
"""How far a coordinate is moved, in standard deviations of the prior."""

TIED = 1e-9
"""Mixed difference, relative to the largest plain one, above which two coordinates are tied."""

SIZES_TO_TRY = (33, 65, 129)
CALM = 1e-4
"""Interpolation error of one datum over the prior's bulk, in nats, at which a grid is fine enough."""


@dataclass(frozen=True)
class ModelReport:
    """How the parameters of a model can be learned; print it.

    Attributes:
        model: Name of the model.
        num_coordinates: p.
        unidentified: Parameters that no datum can teach.
        blocks: Groups of parameters that are independent of each other given the states.
        conjugate: Whether the posterior given the states is conjugate.
        not_conjugate_because: The reason if not.
        exact_rank: Size of the exact statistic of log-density values, or None if there is none of moderate size.
        num_values: How many values an interpolation keeps.
        error_per_datum: What the recommended interpolation misses, in nats a datum, over the prior's bulk.
        recommended: Name of the belief that `extended_parameter_filter` takes; `auto_filter` may choose another
            algorithm.
    """

    model: str
    num_coordinates: int
    unidentified: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]
    conjugate: bool
    not_conjugate_because: str
    exact_rank: int | None
    num_values: int
    error_per_datum: float
    recommended: str

    def __str__(self) -> str:
        lines = [f"{self.model}: {self.num_coordinates} unknown coordinate{'s' * (self.num_coordinates > 1)}"]
        groups = " | ".join(", ".join(block) for block in self.blocks)
        lines.append(f"  independent given the states: {groups}" if len(self.blocks) > 1 else f"  one block: {groups}")
        if self.conjugate:
            lines.append("  conjugate: the posterior given the states is exact in closed form")
        else:
            lines.append(f"  not conjugate: {self.not_conjugate_because}")
        if self.exact_rank is not None:
            lines.append(f"  exactly separable: {self.exact_rank} numbers a particle hold all that the states say")
        else:
            lines.append("  not exactly separable: the log density has to be interpolated in theta")
        if self.unidentified:
            lines.append(f"  the data cannot teach: {', '.join(self.unidentified)} (the prior stays as it is)")
        lines.append(
            f"  belief for particles: {self.recommended}(), {self.num_values} numbers a particle, "
            f"error {self.error_per_datum:.0e} nats a datum over the prior's bulk"
        )
        return "\n".join(lines)


def inspect_model(model: StateSpaceModel) -> ModelReport:
    """Find out how the parameters of a model enter it, and which belief suits it."""
    moves = _moves(model)
    names = _coordinate_names(model)
    unidentified = [names[i] for i in range(len(names)) if not moves.matters[i]]
    reason = why_not_conjugate(model)
    cross = cross_of_prior(model)
    advice = advice_for(model)
    return ModelReport(
        model=model.name,
        num_coordinates=len(names),
        unidentified=tuple(dict.fromkeys(unidentified)),
        blocks=_blocks(names, moves.tied),
        conjugate=reason is None,
        not_conjugate_because=reason or "",
        exact_rank=cross.exact_rank,
        num_values=advice.num_values or cross.size,
        error_per_datum=advice.error_per_datum,
        recommended=advice.belief,
    )


@dataclass(frozen=True)
class Advice:
    """The name of a belief, how many numbers it keeps (None for a sufficient statistic), and its error in nats a datum
    over the prior's bulk."""

    belief: str
    num_values: int | None
    error_per_datum: float


def advice_for(model: StateSpaceModel) -> Advice:
    """Return the belief that suits a model.

    `Conjugate` where the model is conjugate; `Grid` for one coordinate, with as many values as the model needs;
    else `CrossInterpolation`, which is exact where the model is separable. A few parameters that are conjugate in
    several blocks, or coefficients with their variance, are left to `CrossInterpolation` too: it is as exact, and can
    be mixed from two ancestors, so that the filter stays right in the long run.
    """
    try:
        structure = linear_structure(model)
    except BeliefError:
        structure = None
    is_large = model.parameters.dimension > FEW_PARAMETERS
    if structure is not None and (is_large or structure.has_one_simple_block):
        return Advice("Conjugate", None, 0.0)
    if model.parameters.dimension == 1:
        return Advice("Grid", *values_for(model))
    cross = cross_of_prior(model)
    return Advice("CrossInterpolation", cross.size, 0.0 if cross.exact_rank is not None else cross.residual)


def values_for(model: StateSpaceModel) -> tuple[int, float]:
    """Return how many values on a grid suit a model with one coordinate, and the error they leave, in nats a datum."""
    factors = ThetaFactors(model)
    with jax.enable_x64(True):
        data = typical_data(jax.random.key(0), model, NUM_TYPICAL, model.parameters.prior_draws)
        low, high = np.quantile(model.parameters.prior_draws, [0.0, 1.0])
        center, half = (low + high) / 2, (high - low) / 2
        tests = np.linspace(-0.7, 0.7, 41)

        @jax.jit
        def values(data, places):
            points = (center + half * places)[:, None]
            return jax.vmap(lambda datum: jax.vmap(lambda z: factors.step(datum, z))(points))(data)

        exact = np.asarray(values(data, tests))
        size, error = 0, np.inf
        for size in SIZES_TO_TRY:
            on_grid = values(data, np.linspace(-1.0, 1.0, size))
            misses = np.asarray(interpolated(on_grid.T, jnp.asarray((tests + 1) * (size - 1) / 2))).T - exact
            # The sharpest datum decides: the others are easy wherever it is resolved.
            error = float(np.nanmax(np.sqrt(np.mean(misses**2, axis=1))))
            if error < CALM:
                break
    return size, error


@dataclass(frozen=True)
class _Moves:
    matters: np.ndarray
    tied: np.ndarray


def _moves(model: StateSpaceModel) -> _Moves:
    """Move one and two coordinates at a time, and see what the log density does."""
    size = model.parameters.dimension
    steps = STEP * model.parameters.prior_sd * np.eye(size)
    pairs = steps[:, None] + steps[None]
    factors = ThetaFactors(model)
    with jax.enable_x64(True):
        z, data = probe_data(model, NUM_PROBES)

        def score(point, datum):
            total = factors.step(datum, point)
            if factors.depends.initial:
                total += factors.initial(point, datum.x_prev, datum.inputs)
            return total

        @jax.jit
        def differences(z, data):
            def one(point, datum):
                start = score(point, datum)
                single = jax.vmap(lambda step: score(point + step, datum) - start)(jnp.asarray(steps))
                double = jax.vmap(jax.vmap(lambda step: score(point + step, datum) - start))(jnp.asarray(pairs))
                return single, double - single[:, None] - single[None]

            return jax.vmap(one)(z, data)

        single, mixed = (np.nan_to_num(np.asarray(part), posinf=0.0, neginf=0.0) for part in differences(z, data))
    largest = np.max(np.abs(single), axis=0)
    tied = np.max(np.abs(mixed), axis=0) > TIED * (1.0 + largest[:, None] + largest[None])
    return _Moves(largest > 0, tied)


def _blocks(names: list[str], tied: np.ndarray) -> tuple[tuple[str, ...], ...]:
    """Join parameters that are tied, directly or through others."""
    groups = [{name} for name in dict.fromkeys(names)]
    for i, j in zip(*np.nonzero(np.triu(tied, 1)), strict=True):
        first = next(group for group in groups if names[i] in group)
        second = next(group for group in groups if names[j] in group)
        if first is not second:
            first |= second
            groups.remove(second)
    order = list(dict.fromkeys(names))
    return tuple(tuple(sorted(group, key=order.index)) for group in groups)


def _coordinate_names(model: StateSpaceModel) -> list[str]:
    slices = model.parameters.slices
    return [name for name in model.parameters.names for _ in range(slices[name].stop - slices[name].start)]


def why_not_conjugate(model: StateSpaceModel) -> str | None:
    """Return the reason why a model is not conjugate, or None if it is."""
    try:
        linear_structure(model)
    except BeliefError as error:
        return str(error).split(". ")[0].split("; use")[0].rstrip(".")
    return None
