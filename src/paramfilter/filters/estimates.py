"""Numbers about theta that both families give: moments, levels of quantiles, and errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.arguments import kind_of
from paramfilter.errors import ArgumentError
from paramfilter.numerics.weights import mixture_mean_and_variance, weighted_mean_and_variance
from paramfilter.parameters import Parameters

Values = Array | np.ndarray
"""Of a parameter: NumPy's, unless they are being traced."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moments:
    """Mean and variance of each named parameter on its natural scale."""

    mean: dict[str, Array]
    variance: dict[str, Array]

    @classmethod
    def of_points(
        cls, parameters: Parameters, z: Float[Array, "point param"], log_weights: Float[Array, " point"]
    ) -> Moments:
        """Return the moments of weighted points, given in unconstrained coordinates."""
        thetas = jax.vmap(parameters.constrain)(z)
        pairs = {name: weighted_mean_and_variance(log_weights, values) for name, values in thetas.items()}
        return cls(*({name: pair[part] for name, pair in pairs.items()} for part in (0, 1)))


def pooled(log_weights: Float[Array, " part"], each: Moments) -> Moments:
    """Return the moments of a mixture from those of its parts."""
    return Moments(*mixture_mean_and_variance(log_weights, each.mean, each.variance))


class ErrorEstimate(dict[str, Values]):
    """The estimated error of each posterior mean, in posterior sds; NaN if a part of it was not measured.

    Attributes:
        measured: The error of the parts that were measured, by name: the true error may be larger.
        not_measured: Which part was not measured and why; empty if all parts were.
    """

    def __init__(self, measured: Mapping[str, Values], not_measured: str = ""):
        super().__init__({name: np.full_like(one, np.nan) if not_measured else one for name, one in measured.items()})
        self.measured, self.not_measured = measured, not_measured

    @property
    def largest(self) -> float:
        """The largest of the measured errors."""
        return float(max(map(float, self.measured.values())))

    def __repr__(self) -> str:
        figures = ", ".join(f"{name!r}: {float(one):.2g}" for name, one in self.measured.items())
        return (
            f"{{{figures}}}" if not self.not_measured else f"not measured: {self.not_measured}; the rest: {{{figures}}}"
        )


def levels_of(q: float | Sequence[float]) -> Float[np.ndarray, "..."]:
    """Return levels of quantiles as an array, or raise `ArgumentError`."""
    try:
        levels = np.asarray(q, float)
    except (TypeError, ValueError):
        levels = np.array(np.nan)
    if not np.all((levels >= 0) & (levels <= 1)):
        raise ArgumentError(
            f"levels of a quantile lie between 0 and 1, got {q if isinstance(q, list | tuple) else kind_of(q)}. Write "
            "0.95 for the 95 % quantile; the result is a dict with all parameters."
        )
    return levels.astype(jnp.result_type(float))
