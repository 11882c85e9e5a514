"""The posterior of theta as weighted draws: what `pmmh` and `Smc2` answer with. All numbers are NumPy float64."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from paramfilter.parameters import Parameters
from paramfilter.types import KeyArray
from paramfilter.weights import choose_by_weight


@dataclass(frozen=True, eq=False)
class DrawPosterior:
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

    @property
    def theta(self) -> dict[str, np.ndarray]:
        """The draws on the natural scale, by name, with a leading axis of draws."""
        return natural(self.parameters, self.z)

    def mean(self) -> dict[str, np.ndarray]:
        """Return the posterior mean of each parameter, on its natural scale."""
        return {name: self._expect(values) for name, values in self.theta.items()}

    def sd(self) -> dict[str, np.ndarray]:
        """Return the posterior standard deviation of each parameter."""
        centre = self.mean()
        variances = {name: self._expect((values - centre[name]) ** 2) for name, values in self.theta.items()}
        return {name: np.asarray(np.sqrt(variance)) for name, variance in variances.items()}

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

    def _expect(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(np.tensordot(np.exp(self.log_weights), values, axes=1))


def natural(parameters: Parameters, z: Float[np.ndarray, "draw param"]) -> dict[str, np.ndarray]:
    """Return coordinates on the natural scale, by name."""
    with jax.enable_x64(True):
        theta = jax.jit(jax.vmap(parameters.constrain))(jnp.asarray(z, jnp.float64))
    return {name: np.asarray(values) for name, values in theta.items()}
