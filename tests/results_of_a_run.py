"""One small run with everything in it that a result can hold, shared by the tests of results and pictures."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from paramfilter.data import Observations
from paramfilter.running import Forecast

TRUTH = {"phi": np.array([0.8, -0.3]), "q": 0.5}
NUM_STEPS = 60
MISSING = slice(20, 30)


def two_levels() -> pf.StateSpaceModel:
    """Two levels that decay at rates of their own and are disturbed alike; both are seen, and both are pushed."""
    return pf.StateSpaceModel(
        prior={"phi": dist.Normal(jnp.array([0.5, 0.0]), 0.3).to_event(1), "q": dist.InverseGamma(3.0, 2.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        transition=lambda theta, x, push: dist.Normal(theta["phi"] * x + push, jnp.sqrt(theta["q"])).to_event(1),
        observation=lambda theta, x, push: dist.Normal(x, 0.3).to_event(1),
        name="two levels",
        example_inputs=jnp.float32(0.0),
    )


@functools.cache
def simulated() -> Observations:
    """Sixty days, ten of them missing; the columns have names."""
    push = jnp.sin(jnp.arange(NUM_STEPS, dtype=jnp.float32))
    _, ys = pf.simulate(jax.random.key(0), two_levels(), TRUTH, NUM_STEPS, push, jnp.float32(0.0))
    ys = np.array(ys)
    ys[MISSING] = np.nan
    days = np.datetime64("2026-01-01") + np.arange(NUM_STEPS)
    return Observations(ys, np.asarray(push), days, ["north", "south"])


@functools.cache
def run() -> tuple[pf.particles.ParticleState, pf.filters.History, Observations, Forecast]:
    model, data = two_levels(), simulated()
    filter = pf.ParticleFilter(model, 400, pf.particles.ShrinkingKernel())
    state, history = pf.run(filter, filter.init(jax.random.key(1), jnp.float32(0.0)), data)
    ahead = pf.predict(jax.random.key(2), filter, state, 8, jnp.zeros(8))
    return state, history, data, ahead


@functools.cache
def tree():
    state, history, data, ahead = run()
    return pf.to_datatree(state, history, data, forecast=ahead, num_draws=200)


@functools.cache
def node_run() -> tuple[pf.nodes.NodeState, pf.filters.History, Observations, Forecast]:
    """The same data for a filter that compiles in a second: a few nodes, each with a Kalman filter."""
    model, data = two_levels(), simulated()
    filter = pf.node_filter(model, 64)
    state, history = pf.run(filter, filter.init(jax.random.key(1), jnp.float32(0.0)), data)
    return state, history, data, pf.predict(jax.random.key(2), filter, state, 8, jnp.zeros(8))


@functools.cache
def node_tree():
    state, history, data, ahead = node_run()
    return pf.to_datatree(state, history, data, forecast=ahead, num_draws=400)


@functools.cache
def collapsed_tree():
    """A filter of few particles that never moves theta: at the end it holds one value."""
    model, data = two_levels(), simulated()
    filter = pf.sir_filter(model, 16)
    state, history = pf.run(filter, filter.init(jax.random.key(1), jnp.float32(0.0)), data)
    ahead = pf.predict(jax.random.key(2), filter, state, 8, jnp.zeros(8))
    return pf.to_datatree(state, history, data, forecast=ahead, num_draws=400)
