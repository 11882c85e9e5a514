"""An approximate proposal for any smooth transition and observation: Gaussians fitted to their product, with tails.

J(x) = log p(x | x_prev, theta) + log p(y | x, theta) is climbed by a few Newton steps from the transition's center; the
mode and the curvature there make a Student t. A transition that is not Gaussian may have a second peak where the
observation is, as a Cauchy jump has; then a second t sits on the observation's own peak. The transition itself is the
last part of the mixture, so that the weight p(x | x_prev) p(y | x) / q(x) is never above p(y | x) / `DEFENCE`, however
poor the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float

from paramfilter import distributions
from paramfilter.errors import ProposalError
from paramfilter.gaussian import gaussian_of
from paramfilter.inspect.dependence import probe_data
from paramfilter.inspect.linear_gaussian import observed_linearly
from paramfilter.inspect.once import once_per_model
from paramfilter.model import StateSpaceModel
from paramfilter.numerics import student_t
from paramfilter.numerics.small_matrices import cholesky, solve_lower, solve_upper
from paramfilter.proposals.base import BoundProposal, Move

NUM_CLIMBS = 3
"""Newton steps."""

DEFENCE = 0.1
"""Share of particles that move by the transition."""

LEAST_SHARE = 0.1
"""Share of the rest that each t has at least: the masses of poor fits are poor too."""

FAR = 10.0
"""Widths from the center at which tails are looked at."""

FLATTENED = 1e-4
"""Precision of the transition, relative to its own, when the observation's peak is looked for: it only holds the
components that y does not see."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MixturePlan:
    """Student t's `centers[k] + factors[k] @ t`, their log shares, and an estimate of log p(y | x_prev, theta).

    The transition has what is left of the shares.
    """

    centers: Float[Array, "part state"]
    factors: Float[Array, "part state state"]
    log_shares: Float[Array, " part"]
    log_defence: Float[Array, ""]
    log_predictive: Float[Array, ""]


@dataclass(frozen=True, eq=False)
class LaplaceProduct(BoundProposal):
    """Draw from Student t's around the modes of p(x | x_prev, theta) p(y | x, theta)."""

    model: StateSpaceModel
    center: Callable
    has_second_peak: bool

    def plan(self, theta, x_prev, y, inputs):
        start, unravel = ravel_pytree(self.center(self.model.transition(theta, x_prev, inputs)))
        log_transition = lambda flat: self.model.transition_log_prob(theta, x_prev, unravel(flat), inputs)
        log_observation = lambda flat: self.model.observation_log_prob(theta, unravel(flat), y, inputs)
        product = lambda flat: log_transition(flat) + log_observation(flat)
        own = -jax.hessian(log_transition)(start)
        peaks = [_climb(product, start, own)]
        if self.has_second_peak:
            pull = lambda flat: log_observation(flat) - 0.5 * FLATTENED * (flat - start) @ own @ (flat - start)
            peaks.append(_climb(pull, start, FLATTENED * own))
        centers, factors = (jnp.stack(part) for part in zip(*peaks, strict=True))
        sizes = jax.vmap(lambda factor: jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor)))))(factors)
        masses = jax.vmap(product)(centers) + sizes + 0.5 * len(start) * jnp.log(2 * jnp.pi)
        is_good = jnp.isfinite(masses) & jnp.all(jnp.isfinite(factors), axis=(1, 2)) & _is_seen(y)
        masses = jnp.where(is_good, masses, -jnp.inf)
        has_some = jnp.any(is_good)
        shares = jnp.where(is_good, jnp.maximum(jax.nn.softmax(jnp.where(has_some, masses, 0.0)), LEAST_SHARE), 0.0)
        defence = jnp.where(has_some, DEFENCE, 1.0)
        shares = (1 - defence) * shares / jnp.where(has_some, jnp.sum(shares), 1.0)
        return MixturePlan(
            jnp.where(is_good[:, None], centers, start),
            jnp.where(is_good[:, None, None], factors, jnp.eye(len(start), dtype=start.dtype)),
            jnp.log(shares),
            jnp.log(defence),
            jnp.where(has_some, jax.nn.logsumexp(masses), log_observation(start)),
        )

    def ahead(self, plan):
        return plan.log_predictive

    def propose(self, key, plan, theta, x_prev, y, inputs):
        key_choose, key_move, key_near = jax.random.split(key, 3)
        moved, unravel = ravel_pytree(self.model.sample_transition(key_move, theta, x_prev, inputs))
        shares = jnp.concatenate([plan.log_shares, plan.log_defence[None]])
        uniform = jax.random.uniform(key_choose, dtype=moved.dtype)
        part = jnp.sum(uniform > jnp.cumsum(jnp.exp(shares))[:-1])
        chosen = jnp.minimum(part, len(plan.centers) - 1)
        noise = student_t.draw(key_near, len(moved), moved.dtype)
        x = jnp.where(part == len(plan.centers), moved, plan.centers[chosen] + plan.factors[chosen] @ noise)
        log_transition = self.model.transition_log_prob(theta, x_prev, unravel(x), inputs)
        log_near = jax.vmap(_log_student, in_axes=(None, 0, 0))(x, plan.centers, plan.factors)
        log_proposal = jax.nn.logsumexp(shares + jnp.concatenate([log_near, log_transition[None]]))
        log_observation = self.model.observation_log_prob(theta, unravel(x), y, inputs)
        log_weight = log_transition + log_observation - log_proposal
        # The tails of a t reach places where a model has no numbers, such as a variance of exp(-180). Nothing is there.
        is_nowhere = (part < len(plan.centers)) & jnp.isnan(log_weight)
        return Move(unravel(x), jnp.where(is_nowhere, -jnp.inf, log_weight))


@once_per_model
def laplace_product(model: StateSpaceModel) -> LaplaceProduct:
    """Fit the proposal to a model, or raise `ProposalError`."""
    z, data = probe_data(model)
    if not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(data.x)):
        raise ProposalError("Guided needs a state of real numbers; this model's holds whole numbers. Use Bootstrap().")
    is_gaussian = []

    def probe_center(center):
        def one(point, datum):
            law = model.transition(model.parameters.constrain(point), datum.x_prev, datum.inputs)
            is_gaussian.append(gaussian_of(law) is not None)
            return center(law)

        return jax.jit(jax.vmap(one))(z, data)

    for center in CENTERS:
        try:
            found = probe_center(center)
        except (NotImplementedError, AttributeError):
            continue
        if all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found)):
            return LaplaceProduct(model, center, has_second_peak=not is_gaussian[-1])
    raise ProposalError("Guided needs a transition with a mean, a median or a loc; this one has none. Use Bootstrap().")


@once_per_model
def is_heavy_tailed(model: StateSpaceModel) -> bool:
    """Tell whether the state may jump: far out the log density of a transition bends upwards, as that of a Cauchy does.

    A state of whole numbers, or a transition without a center, is taken not to.
    """
    if observed_linearly(model) is not None:
        return False  # it is asked anyway, and known by then
    try:
        center = laplace_product(model).center
    except ProposalError:
        return False

    def far_curvature(z, datum):
        theta = model.parameters.constrain(z)
        start, unravel = ravel_pytree(center(model.transition(theta, datum.x_prev, datum.inputs)))
        bend = jax.hessian(lambda flat: model.transition_log_prob(theta, datum.x_prev, unravel(flat), datum.inputs))
        far = start + FAR / jnp.sqrt(jnp.maximum(-jnp.diagonal(bend(start)), 1e-12))
        return jnp.max(jnp.diagonal(bend(far)))

    return bool(np.median(jax.jit(jax.vmap(far_curvature))(*probe_data(model))) > 0)


def _of_each(read: Callable) -> Callable:
    def center(tree):
        shape = lambda law: jnp.broadcast_to(jnp.asarray(read(law), float), law.shape())
        return jax.tree.map(shape, tree, is_leaf=distributions.is_distribution)

    return center


CENTERS = tuple(_of_each(read) for read in (lambda law: law.mean, lambda law: law.icdf(0.5), lambda law: law.loc))
"""Where a transition is centerd: its mean, or else its median, or else what it is called by."""


def _climb(
    log_density: Callable, start: Float[Array, " state"], precision: Float[Array, "state state"]
) -> tuple[Float[Array, " state"], Float[Array, "state state"]]:
    """Return a mode, and a factor of the inverse curvature there; `precision` stands in where there is no peak."""

    def curvature_root(point):
        root = cholesky(-jax.hessian(log_density)(point))
        return jnp.where(jnp.all(jnp.diagonal(root) > 0), root, cholesky(precision))

    def step(_, carry):
        point, value = carry
        root = curvature_root(point)
        move = solve_upper(root, solve_lower(root, jax.grad(log_density)(point)))
        tries = point + jnp.array([1.0, 0.25, 0.05], point.dtype)[:, None] * move
        values = jax.vmap(log_density)(tries)
        best = jnp.argmax(jnp.where(jnp.isnan(values), -jnp.inf, values))
        return jnp.where(values[best] > value, tries[best], point), jnp.maximum(values[best], value)

    point, _ = jax.lax.fori_loop(0, NUM_CLIMBS, step, (start, log_density(start)))
    return point, solve_lower(curvature_root(point), jnp.eye(len(point), dtype=point.dtype)).T


def _log_student(x, center, factor):
    standard = solve_upper(factor.T, x - center)
    return student_t.log_density(standard) - jnp.sum(jnp.log(jnp.abs(jnp.diagonal(factor))))


def _is_seen(y) -> Bool[Array, ""]:
    return jnp.any(~jnp.isnan(distributions.ravel(y)))
