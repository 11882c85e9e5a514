"""One value of theta per particle, renewed when it has just been copied: what banks of filters believe.

Resampling replaces values that fit the data badly by copies of others. Right after it all copies are drawn anew around
where they were, by Liu and West's kernel; between two resamplings, which come ever more rarely as the posterior
settles, values stand still. Where a particle knows its state well given theta (`proposals.kalman_bank`,
`proposals.crowd`) this works for any number of parameters.

The kernel keeps mean and covariance of the copies. What else it does depends on their weights.

Weights that are exact, as a Kalman filter's, know more than the copies. These see nothing beyond the outermost value:
where values are few and the data pull the posterior away from them, each round would end too soon and too narrow. But
values were spread much like a normal law when the last round began, and what the data have said since then is the
weights' logarithm; a quadratic fitted to it (`weight_fit`) sees beyond the outermost value. If it finds the posterior
much wider than the copies are, or the values have settled, copies are moved to have its mean and covariance. It is not
used always, because values that are not quite normal, as draws of a skewed prior, make it wrong by some tenths of an
sd, whatever their number.

Weights that are estimates, as a particle filter's, are too noisy for that: now and then a fit is wildly wrong. Copies
keep their mean and covariance, and the kernel works where both sides of their median are equally long (`two_piece`), so
that a skewed law stays skewed.

When it lies: the shape of the posterior is that of a normal law, in unconstrained coordinates and but for a long side,
save for what the weights of the present round say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from paramfilter.beliefs.base import Belief, BoundBelief, Draw, no_outcome
from paramfilter.beliefs.moved_points import kept_share, require_discount
from paramfilter.beliefs.point_mass import BoundPointMass
from paramfilter.beliefs.spread import MIN_SPREAD, Spread, spread_of
from paramfilter.beliefs.two_piece import TwoPiece, two_piece_of
from paramfilter.beliefs.weight_fit import posterior_of_weights
from paramfilter.model import StateSpaceModel
from paramfilter.outcome import Outcome
from paramfilter.rarely import rarely

WIDER = 1.5
"""How much more variance than the copies a fit must find, in some direction, to take their place."""

FAR_OUT = 2.75
"""Prior sds from the prior's mean beyond which values are said to be far out
(docs/decisions/0029-banks-of-filters.md has the errors there)."""

SETTLED = 0.5
"""Of the prior's sd, by geometric average over the coordinates: below it values have settled, and forgotten the shape
of the prior (docs/decisions/0029-banks-of-filters.md)."""


@dataclass(frozen=True)
class RenewingKernel(Belief):
    """Values that are drawn anew around where they were, right after they were resampled.

    A proposal that looks ahead resamples after theta was drawn, so it cannot go with this.

    Args:
        discount: As in `ShrinkingKernel`; smaller, since values move so rarely.
        weights_are_exact: Whether particles are weighed by a likelihood and not by an estimate of it.
    """

    discount: float = 0.85
    weights_are_exact: bool = False

    def __post_init__(self):
        require_discount(self.discount, "0.85 is usual")

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit any model."""
        name = f"RenewingKernel({self.discount}{', exact weights' if self.weights_are_exact else ''})"
        return _BoundRenewingKernel(model, name, kept_share(self.discount), self.weights_are_exact)


def _most_wider(first: Spread, second: Spread) -> Float[Array, ""]:
    """Return the largest ratio of the variances of two spreads, over all directions."""
    relative = jax.scipy.linalg.solve_triangular(second.factor, first.factor, lower=True)
    return jnp.linalg.norm(relative, 2) ** 2


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Round:
    """What the values were and weighed after the last datum; where their copies are, and where they should be.

    Both spreads are of values whose sides the shape has made equally long.
    """

    z: Float[Array, "particle param"]
    log_weights: Float[Array, " particle"]
    shape: TwoPiece
    copies: Spread
    posterior: Spread


@dataclass(frozen=True, eq=False)
class _BoundRenewingKernel(BoundPointMass):
    """A particle remembers whether it is to be renewed."""

    keep: float = 1.0
    weights_are_exact: bool = False

    @property
    def needs_fresh_copies(self):
        return True

    def start(self):
        return jnp.bool_(False)

    def start_shared(self, z):
        even = jnp.zeros(len(z), z.dtype)
        spread = self._spread(z, even)
        return _Round(z, even, TwoPiece.even(z[0]), spread, spread)

    def regroup(self, shared, statistics, z, log_weights, is_fresh):
        # If none is fresh, the spread of all will do: nobody asks for it.
        counted = is_fresh | ~jnp.any(is_fresh)
        log_weights_before = jnp.where(counted, shared.log_weights, -jnp.inf)
        if not self.weights_are_exact:
            before = (shared.z, log_weights_before)
            shape = rarely(jnp.any(is_fresh), lambda before: two_piece_of(*before), before, shared.shape)
            copies = self._spread(shape.evened(z), jnp.where(counted, log_weights, -jnp.inf))
            return replace(shared, shape=shape, copies=copies, posterior=copies), is_fresh
        copies = self._spread(z, jnp.where(counted, log_weights, -jnp.inf))
        before = (shared.z, log_weights_before, counted, copies)
        posterior = rarely(jnp.any(is_fresh), self._posterior, before, copies)
        return replace(shared, copies=copies, posterior=posterior), is_fresh

    def witness(self, key, shared, data, z, log_weights, time):
        return replace(shared, z=z, log_weights=log_weights)

    def absorb(self, shared, statistic, datum):
        return jnp.bool_(False)

    def draw(self, key, shared, statistic, previous):
        noise = jax.random.normal(key, previous.shape, previous.dtype)
        now = shared.copies.to_standard(shared.shape.evened(previous))
        moved = shared.posterior.from_standard(self.keep * now + (1 - self.keep**2) ** 0.5 * noise)
        z = jnp.where(statistic, shared.shape.uneven(moved), previous)
        return Draw(z, jnp.where(statistic & self._is_far_out(shared), Outcome.VALUES_FAR_OUT, no_outcome()))

    def _spread(self, z: Float[Array, "particle param"], log_weights: Float[Array, " particle"]) -> Spread:
        return spread_of(z, log_weights, MIN_SPREAD * self.model.parameters.prior_sd)

    def _posterior(self, before: tuple) -> Spread:
        z, log_weights, counted, copies = before
        spread = self._spread(z, jnp.where(counted, jnp.zeros_like(log_weights), -jnp.inf))
        fitted, is_sound = posterior_of_weights(spread, z, log_weights)
        is_wanted = is_sound & (self._is_settled(spread) | (_most_wider(fitted, copies) > WIDER))
        return jax.tree.map(lambda new, old: jnp.where(is_wanted, new, old), fitted, copies)

    def _is_settled(self, spread: Spread) -> Bool[Array, ""]:
        sd = jnp.sqrt(jnp.diag(spread.covariance))
        typical = jnp.exp(jnp.mean(jnp.log(sd / jnp.asarray(self.model.parameters.prior_sd, sd.dtype))))
        return typical < SETTLED

    def _is_far_out(self, shared: _Round) -> Bool[Array, ""]:
        parameters = self.model.parameters
        return jnp.any(jnp.abs(shared.posterior.mean - parameters.prior_mean) > FAR_OUT * parameters.prior_sd)
