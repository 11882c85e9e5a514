"""Read a model and say, in a few lines, how its parameters enter it.

Everything is found by trying the model's own log densities, in float64, at data and parameters drawn from it:

- a parameter that changes nothing cannot be taught by data;
- conjugacy is read off the Gaussians of the model (see `linear_structure`);
- the model is separable (Erol et al. 2013, Definition 1: log p(x' | x, theta) = sum_k h_k(x, x') g_k(theta)) if the
  matrix of log densities, a row for each datum and a column for each theta, has a small rank. The rank is the number of
  sums that a particle needs to remember all that its states say.

>>> from paramfilter.models import linear_gaussian, sin
>>> inspect_model(sin()).rank, inspect_model(linear_gaussian()).rank
(None, 2)
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.errors import BeliefError
from paramfilter.inspect.dependence import ThetaFactors, probe_data
from paramfilter.inspect.linear_structure import linear_structure
from paramfilter.model import StateSpaceModel

NUM_PROBES = 64
MOST = 24
"""Numbers of a statistic that are looked for."""

EXACT, GAP = 1e-12, 1e4
"""A model is separable if singular values fall from one to the next by this factor, to this share of the largest. Those
of a model that is smooth but not separable fall step by step."""


@dataclass(frozen=True)
class ModelReport:
    """How the parameters of a model enter it; print it.

    Attributes:
        model: Name of the model.
        unidentified: Parameters that no datum can teach.
        not_conjugate: Why the posterior given the states is not conjugate; None if it is.
        rank: Size of the exact statistic of a separable model; None if the model is not separable, or needs more than
            24 numbers.
    """

    model: str
    unidentified: tuple[str, ...]
    not_conjugate: str | None
    rank: int | None

    def __str__(self) -> str:
        lines = [f"{self.model}:", f"  not conjugate: {self.not_conjugate}"]
        if self.not_conjugate is None:
            lines[1] = "  conjugate: the posterior given the states is exact in closed form"
        if self.rank is None:
            lines.append(f"  not separable with up to {MOST} numbers: particles approximate the density of theta")
        else:
            lines.append(f"  separable: {self.rank} numbers a particle hold all that its states say")
        if self.unidentified:
            lines.append(f"  the data cannot teach: {', '.join(self.unidentified)} (the prior stays as it is)")
        return "\n".join(lines)


def inspect_model(model: StateSpaceModel) -> ModelReport:
    """Find out how the parameters of a model enter it."""
    factors, parameters = ThetaFactors(model), model.parameters
    with jax.enable_x64(True):
        z, data = probe_data(model, NUM_PROBES)

        def score(point, datum):
            total = factors.step(datum, point)
            return total + factors.initial(point, datum.x_prev, datum.inputs) if factors.depends.initial else total

        @jax.jit
        def evaluate(z, data):
            scores = jax.vmap(lambda datum: jax.vmap(lambda point: score(point, datum))(z))(data)
            return scores, jax.vmap(jax.grad(score))(z, data)

        scores, slopes = map(np.asarray, evaluate(jnp.asarray(z), data))
    changes = np.nan_to_num(scores - scores[:, :1])
    sizes = np.linalg.svd(changes / np.maximum(np.max(np.abs(changes), axis=1, keepdims=True), 1e-300))[1]
    rank = 1 + int(np.argmax(sizes[:MOST] / np.maximum(sizes[1 : MOST + 1], 1e-300)))
    is_exact = sizes[rank] < min(EXACT * sizes[0], sizes[rank - 1] / GAP)
    matters = np.any(slopes != 0, axis=0)
    idle = tuple(name for name in parameters.names if not np.any(matters[parameters.slices[name]]))
    return ModelReport(model.name, idle, why_not_conjugate(model), rank if is_exact else None)


def why_not_conjugate(model: StateSpaceModel) -> str | None:
    """Return the reason why a model is not conjugate, or None if it is."""
    try:
        linear_structure(model)
    except BeliefError as error:
        return str(error).split(". ")[0].split("; use")[0].rstrip(".")
    return None
