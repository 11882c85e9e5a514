"""A stream left alone: constant time, constant memory, and sums that hold."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from paramfilter.model import Transition


def state_bytes(state: pf.particles.ParticleState) -> int:
    """Return the size of a state."""
    leaves = [jax.random.key_data(leaf) if leaf.dtype == state.key.dtype else leaf for leaf in jax.tree.leaves(state)]
    return sum(leaf.nbytes for leaf in leaves)


def time_of_late_steps(num_steps: int, num_particles: int, block: int = 1000, repeats: int = 61) -> dict:
    """Compare the CPU time of a block of steps at `num_steps` with one at the start, in pairs one after the other.

    The median of the pairs' ratios does not see a neighbour that slows the machine down for a while.
    """
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2), r=1.0)
    filter = pf.storvik_filter(model, num_particles)
    ys = pf.simulate(jax.random.key(0), model, {"phi": 0.5}, num_steps)[1]
    early = filter.init(jax.random.key(1))
    late = pf.catch_up(filter, early, ys)
    first_block = ys[:block]

    def cpu_seconds(state):
        began = time.process_time()
        jax.block_until_ready(pf.catch_up(filter, state, first_block))
        return time.process_time() - began

    cpu_seconds(early)  # compiles
    ratios = [cpu_seconds(late) / cpu_seconds(early) for _ in range(repeats)]
    return {
        "t": int(late.time),
        "late / early": float(np.median(ratios)),
        "bytes early": state_bytes(early),
        "bytes late": state_bytes(late),
    }


def drift_of_statistics(num_updates: int) -> dict[str, float]:
    """Return relative errors of a float32 conjugate statistic after many updates on a known path."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2), q=dist.InverseGamma(4.0, 3.0))
    belief = pf.particles.Conjugate().bind(model)

    def update(index, carry):
        x_prev, statistic, plain = carry
        x = path(index)
        statistic = belief.update(None, statistic, Transition(x_prev, x, jnp.nan, None))
        return x, statistic, plain + (x - 0.3 * x_prev) ** 2

    start = (path(jnp.int32(0)), belief.init(), jnp.float32(0.0))
    _, (sums,), plain = jax.jit(lambda: jax.lax.fori_loop(1, num_updates + 1, update, start))()
    exact = {"precision": 0.0, "shift": 0.0, "square": 0.0}
    block = 1_000_000
    for begin in range(0, num_updates, block):
        x = np.asarray(path(jnp.arange(begin, min(begin + block, num_updates) + 1)), np.float64)
        residual = x[1:] - np.float64(np.float32(0.3)) * x[:-1]
        exact["precision"] += np.sum(x[:-1] ** 2)
        exact["shift"] += np.sum(x[:-1] * residual)
        exact["square"] += np.sum(residual**2)
    found = {
        "precision": sums.precision.value[0, 0],
        "shift": sums.shift.value[0],
        "square": sums.square.value,
    }
    errors = {name: abs(float(found[name]) / exact[name] - 1) for name in exact}
    errors["count"] = abs(float(sums.count.value) / num_updates - 1)
    errors["square, plain float32 sum"] = abs(float(plain) / exact["square"] - 1)
    return errors


def path(index: jax.Array) -> jax.Array:
    """Return a fixed, uneven path, the same in every order of evaluation."""
    phase = index.astype(jnp.float32) % 9973.0
    return jnp.sin(0.7 * phase) + 0.5 * jnp.cos(2.3 * phase)
