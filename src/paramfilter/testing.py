"""Checks for parts of your own: a belief, a proposal or an inner filter that passes them works in a filter.

Each takes the part as a filter would, tries it on one step of a model, and raises `AssertionError` with what was found
and what was expected. Errors of Monte Carlo are allowed for: a right part fails about once in a million calls, and
always with the same key, so a check that passed will pass again.

>>> import numpyro.distributions as dist, paramfilter as pf
>>> model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
>>> check_belief(pf.particles.Conjugate(), model)
>>> check_proposal(pf.proposals.Bootstrap(), model)
>>> check_inner_filter(pf.nodes.Kalman, model)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter import distributions
from paramfilter.inspect.probe import trial
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.nodes import InnerFilter
from paramfilter.particles import Belief
from paramfilter.proposals import Bootstrap, Proposal

__all__ = ["check_belief", "check_inner_filter", "check_proposal"]

NUM_DRAWS = 4096
STANDARD_ERRORS = 5.0
"""Allowed between two means of draws: a normal error is beyond it once in two million times."""
NUM_TRIED = 4
"""Steps of the model, at draws from its prior, that a part is tried on."""


def check_belief(belief: Belief, model: StateSpaceModel, tolerance: float = 1e-3, has_chain: bool = False) -> None:
    """Check that a belief learns by Bayes' rule, and that its draws have its moments.

    Args:
        belief: The belief.
        model: A model that it suits.
        tolerance: Nats by which the log density may miss Bayes' rule after one step, within the bulk of the prior.
        has_chain: It draws by a Markov chain, which need not have converged at once: draws are not checked.
    """
    bound, tried = belief.bind(model), trial(model)
    shared = bound.init_shared(jnp.asarray(tried.z))
    points = jnp.asarray(tried.z)
    for number in range(NUM_TRIED):
        datum = _datum(tried, number)
        after = bound.update(shared, bound.init(), datum)
        if bound.has_density:
            _check_density(bound, shared, after, points, datum, tolerance)
        if not has_chain:
            _check_draws(bound, shared, after, points[number])


def _check_density(bound: Any, shared: Any, after: Any, points: Any, datum: Transition, tolerance: float) -> None:
    before = bound.init()
    learned = jax.vmap(lambda z: bound.log_prob(shared, after, z) - bound.log_prob(shared, before, z))(points)
    said = jax.vmap(lambda z: _log_likelihood(bound.model, z, datum))(points)
    miss = np.asarray(learned - said)
    spread = float(np.max(miss) - np.min(miss))
    assert spread <= tolerance, (
        f"after one step the log density of {bound.name} misses prior times likelihood by {spread:.2g} nats, "
        f"beyond a constant; {tolerance:.2g} are allowed"
    )


def _check_draws(bound: Any, shared: Any, statistic: Any, z: Any) -> None:
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS)
    draws = jax.jit(jax.vmap(lambda key: bound.sample(key, shared, statistic, z).z))(keys)
    moments, thetas = bound.moments(shared, statistic, z), jax.vmap(bound.model.parameters.constrain)(draws)
    for name, values in thetas.items():
        _require_near(f"the mean of draws of {name}", values, np.asarray(moments.mean[name]))


def check_proposal(proposal: Proposal, model: StateSpaceModel) -> None:
    """Check that a proposal's weights are right: their mean is p(y | x_prev, theta), whatever it proposes.

    Args:
        proposal: The proposal.
        model: A model that it suits.
    """
    tried = trial(model)
    for number in range(NUM_TRIED):
        datum, theta = _datum(tried, number), model.parameters.constrain(jnp.asarray(tried.z[number]))
        own, plain = (_weights(part.bind(model), theta, datum) for part in (proposal, Bootstrap()))
        scale = np.mean(plain)
        _require_near(f"the mean weight of {proposal!r}", own / scale, np.ones(()), float(np.std(plain / scale)))


def _weights(bound: Any, theta: Any, datum: Transition) -> np.ndarray:
    def one(key):
        plan = bound.plan(theta, datum.x_prev, datum.y, datum.inputs)
        return bound.propose(key, plan, theta, datum.x_prev, datum.y, datum.inputs).log_weight

    return np.exp(np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), NUM_DRAWS)), float))


def check_inner_filter(inner: type[InnerFilter] | InnerFilter, model: StateSpaceModel) -> None:
    """Check that an inner filter keeps nodes apart, takes missing data, and forecasts what it then sees.

    Args:
        inner: The inner filter, bound to the model or not.
        model: A model that it suits.
    """
    bound, tried = inner if isinstance(inner, InnerFilter) else inner.bind(model), trial(model)
    theta = jax.vmap(model.parameters.constrain, out_axes=-1)(jnp.asarray(tried.z[:NUM_TRIED]))
    datum = _datum(tried, 0)
    constants, start = bound.prepare(theta), bound.init(theta, datum.inputs)
    after, increments = bound.step(constants, start, datum.y, datum.inputs)
    assert increments.shape == (NUM_TRIED,), f"step of {bound.name} returns increments of shape {increments.shape}"
    same = jax.tree.map(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype), start, after)
    assert all(jax.tree.leaves(same)), f"step of {bound.name} changes shapes or types of its state"

    turn = lambda tree: jax.tree.map(lambda leaf: leaf[..., ::-1], tree)
    turned = bound.step(bound.prepare(turn(theta)), bound.init(turn(theta), datum.inputs), datum.y, datum.inputs)[1]
    np.testing.assert_allclose(turned[::-1], increments, atol=1e-4, err_msg=f"nodes of {bound.name} know each other")

    missing = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), datum.y)
    nothing = bound.step(constants, start, missing, datum.inputs)[1]
    np.testing.assert_allclose(nothing, 0.0, atol=1e-4, err_msg=f"{bound.name} learns from a missing observation")

    forecast = bound.forecast(constants, start, datum.y, datum.inputs)
    known = np.isfinite(forecast.upper)
    assert np.all((forecast.lower >= -1e-6) & (forecast.upper <= 1 + 1e-6) | ~known), "probabilities beyond 0 and 1"
    mean, variance = bound.moments(after)
    assert all(len(leaf) == NUM_TRIED for leaf in jax.tree.leaves(mean)), "moments need a leading axis of nodes"
    assert all(np.all(leaf >= 0) for leaf in jax.tree.leaves(variance)), "a variance is negative"
    one = jax.tree.map(lambda leaf: leaf[..., 0], after)
    drawn = jax.vmap(lambda key: distributions.ravel(bound.sample(key, one)))(
        jax.random.split(jax.random.key(2), NUM_DRAWS)
    )
    first = distributions.ravel(jax.tree.map(lambda leaf: leaf[0], mean))
    _require_near(f"the mean of states drawn by {bound.name}", drawn, np.asarray(first))


def _datum(tried: Any, number: int) -> Transition:
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[number]), tried.datum)


def _log_likelihood(model: StateSpaceModel, z: Any, datum: Transition) -> Any:
    theta = model.parameters.constrain(z)
    moved = model.transition_log_prob(theta, datum.x_prev, datum.x, datum.inputs)
    return moved + model.observation_log_prob(theta, datum.x, datum.y, datum.inputs)


def _require_near(what: str, draws: Any, expected: np.ndarray, other_sd: float = 0.0) -> None:
    draws = np.asarray(draws, float)
    allowed = STANDARD_ERRORS * np.sqrt((np.var(draws, axis=0) + other_sd**2) / len(draws)) + 1e-4 * np.abs(expected)
    found = np.mean(draws, axis=0)
    assert np.all(np.abs(found - expected) <= allowed + 1e-6), (
        f"{what} is {found}, and should be {expected} to within {allowed}"
    )
