"""The posterior of theta as weighted draws: what `pmmh` and `SMC2` answer with. All numbers are NumPy float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from paramfilter.labels import prior_in_brief
from paramfilter.numerics.weights import choose_by_weight
from paramfilter.parameters import Parameters
from paramfilter.references.posterior import WeightedThetas, natural
from paramfilter.types import KeyArray


@dataclass(frozen=True, eq=False)
class DrawPosterior(WeightedThetas):
    """Draws from p(theta | y_{1:t}).

    Args:
        parameters: Names and supports of theta.
        z: The draws, in unconstrained coordinates.
        log_weights: Normalised log weights of the draws.
        log_evidence: An estimate of log p(y_{1:t}), or None.
        standard_error: Of the posterior means, in posterior sds, the worst over the parameters; None if not known.
        rhat: Split R-hat of several chains, the worst over the parameters; None if there are none.
        acceptance: The share of proposed moves that were made, of late.
    """

    parameters: Parameters
    z: Float[np.ndarray, "draw param"]
    log_weights: Float[np.ndarray, " draw"]
    log_evidence: float | None = None
    standard_error: float | None = None
    rhat: float | None = None
    acceptance: float | None = None

    def __repr__(self) -> str:
        return f"DrawPosterior({prior_in_brief(self.parameters.prior)}; {len(self.log_weights)} draws)"

    @cached_property
    def theta(self) -> dict[str, np.ndarray]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The draws on the natural scale, by name, with a leading axis of draws."""
        with jax.enable_x64(True):
            return natural(self.parameters, self.z)

    def sample(self, key: KeyArray, num_draws: int) -> dict[str, np.ndarray]:
        """Choose draws by weight, each parameter with a leading axis of length num_draws."""
        with jax.enable_x64(True):
            chosen = np.asarray(choose_by_weight(key, jnp.asarray(self.log_weights), num_draws))
        return {name: values[chosen] for name, values in self.theta.items()}

    def quantile(self, q: float | Float[np.ndarray, " q"]) -> dict[str, np.ndarray]:
        """Return quantiles of each parameter; an array of shares gives a leading axis."""
        weights = np.exp(self.log_weights)
        return {
            name: np.asarray(np.quantile(values, q, axis=0, weights=weights, method="inverted_cdf"))
            for name, values in self.theta.items()
        }
