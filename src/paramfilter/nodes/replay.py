"""New nodes that are taken through the data that were kept: exact, whatever the posterior looks like.

Rounds of proposing and weighing:

1. Weigh the nodes of the last rounds by p(theta) L(theta)^beta / q(theta), L the likelihood of all data; beta is 1, or
   less if the effective sample size would be too small.
2. Draw new nodes from the mixture around them (`proposals`), and take them through all data.
3. Stop when beta is 1 and the new nodes alone are enough.

Renewals come at times that grow geometrically, so all replays together cost a few passes over the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from paramfilter.nodes.lattice import scattered
from paramfilter.nodes.loop import fresh_nodes, observe
from paramfilter.nodes.proposals import Mixture, mixture_of
from paramfilter.nodes.state import Kept, Nodes, NodeState
from paramfilter.outcome import Outcome
from paramfilter.tracing import RUN_ONCE, is_traced, loop_while, numbers, on_host
from paramfilter.types import Inputs, KeyArray, Numbers

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeFilter

MAX_ROUNDS = 30
POOLED_ROUNDS = 4
"""Rounds whose nodes say together where the next ones should be."""
CRASH, FEWEST_LEFT = 0.02, 4
"""Share and number of effective nodes below which nothing can be built on them: start again from the prior."""
FLOOR = 0.1
"""Share of effective nodes that a proposal may rest on."""
ENOUGH, LESS_PER_ROUND, FEWEST = 0.4, 0.05, 0.2
"""Share of effective nodes that ends the rounds, and how it falls with each of them, down to the fewest."""
WIDTHS = (1.15, 1.3)
"""Of the one Gaussian that stands for the kernels if there are many parameters, by turns."""
NARROWER, NARROWEST = 0.75, 0.2
"""Factor by which kernels become narrower if too few nodes were effective, and the least width."""
POWERS = 2.0 ** -(np.arange(48) / 2)
"""Values of beta that are tried."""
LEAST, TINY = -1e30, 1e-30
"""In place of minus infinity, from which nothing can be taken off, and of zero, which has no logarithm."""


def first_state(filter: NodeFilter, key: KeyArray, inputs: Inputs) -> NodeState:
    """Place nodes over the prior; no data are seen."""
    xp = numbers(key, inputs)
    room = lambda leaf: xp.zeros((filter.num_kept, *leaf.shape), leaf.dtype)
    kept = Kept(jax.tree.map(room, filter.observation_shapes), jax.tree.map(room, filter.input_shapes), inputs)
    time = xp.zeros((), xp.int32)
    return NodeState(
        key=key,
        time=time,
        nodes=_from_prior(filter, key, kept, time),
        kept=kept,
        trigger=xp.asarray(filter.lowest_ess, jnp.result_type(float)),
        surface_error=xp.zeros(filter.model.parameters.dimension, jnp.result_type(float)),
        outcome=xp.zeros((), xp.int32),
        made_by=filter.fingerprint,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rounds:
    """What the rounds have brought so far.

    Attributes:
        number: How many there were.
        nodes: Of the last one.
        z: Of the last `POOLED_ROUNDS`, with what they were weighed by:
        log_base: log p(z) - log q(z); -inf where a round is still to come.
        log_likelihood: Less the largest of its round.
        width: Of the next kernels.
        ess: Effective sample size of the last round, at beta = 1.
    """

    number: Int[Numbers, ""]
    nodes: Nodes
    z: Float[Numbers, "round node param"]
    log_base: Float[Numbers, "round node"]
    log_likelihood: Float[Numbers, "round node"]
    width: Float[Numbers, ""]
    ess: Float[Numbers, ""]


def renew_by_replay(filter: NodeFilter, state: NodeState) -> NodeState:
    """Replace the nodes, all data being kept."""
    xp = numbers(state)

    def is_wanted(rounds):
        share = xp.maximum(ENOUGH - LESS_PER_ROUND * (rounds.number - 1), FEWEST)
        return (rounds.number == 0) | ((rounds.ess < share * filter.num_nodes) & (rounds.number < MAX_ROUNDS))

    start = _start(filter, state)
    rounds = loop_while(is_wanted, lambda done: _next_round(filter, state, done), start, traced=is_traced(state))
    has_failed = rounds.ess < FEWEST * filter.num_nodes
    return replace(
        state,
        nodes=rounds.nodes,
        trigger=xp.minimum(filter.lowest_ess, rounds.ess / 2).astype(state.trigger.dtype),
        outcome=state.outcome | xp.where(has_failed, int(Outcome.NODES_TOO_FEW), 0).astype(state.outcome.dtype),
    )


def _start(filter: NodeFilter, state: NodeState) -> Rounds:
    """Begin with the nodes there are, or with new ones from the prior if too few of them are of use."""
    xp = numbers(state)
    ess = xp.asarray(state.nodes.ess)
    has_crashed = ess < max(CRASH * filter.num_nodes, FEWEST_LEFT)
    from_prior = lambda nodes: _from_prior(filter, jax.random.fold_in(state.key, state.time), state.kept, state.time)
    if is_traced(state):
        nodes = jax.lax.cond(has_crashed, from_prior, lambda nodes: nodes, state.nodes)
    else:
        nodes = from_prior(state.nodes) if has_crashed else state.nodes
    is_first = (xp.arange(POOLED_ROUNDS) == 0)[:, None]
    return Rounds(
        number=xp.zeros((), xp.int32),
        nodes=nodes,
        z=xp.where(is_first[:, :, None], xp.asarray(nodes.z), 0),
        log_base=xp.where(is_first, xp.asarray(nodes.log_prior - nodes.log_proposal), -xp.inf),
        log_likelihood=xp.where(is_first, xp.asarray(nodes.log_likelihood), 0),
        width=xp.asarray(filter.kernel_width, ess.dtype),
        ess=ess,
    )


def _next_round(filter: NodeFilter, state: NodeState, rounds: Rounds) -> Rounds:
    """Draw nodes around those of the last rounds, and take them through all data."""
    xp = numbers(state)
    powers = xp.asarray(POWERS, rounds.z.dtype)
    sizes = _sizes(rounds.log_base + powers[:, None, None] * rounds.log_likelihood)
    is_enough = xp.sum(sizes, axis=1) >= FLOOR * filter.num_nodes
    chosen = xp.where(xp.any(is_enough), xp.argmax(is_enough), xp.argmax(xp.sum(sizes, axis=1)))
    log_weights = pooled(rounds.log_base + powers[chosen] * rounds.log_likelihood)
    width = rounds.width if filter.has_kernels else xp.asarray(WIDTHS, rounds.z.dtype)[rounds.number % len(WIDTHS)]
    around = mixture_of(rounds.z.reshape(-1, rounds.z.shape[-1]), log_weights, width, filter.prior)
    e, choice = filter.compiled(node_points, compiler_options=RUN_ONCE)(state.key, state.time, rounds.number + 1)
    z = around.at(xp.asarray(e), xp.asarray(choice))
    nodes = as_known(filter.compiled(through)(z, around.log_density(z), state.kept, state.time))
    ess = xp.asarray(nodes.ess)
    is_low = (chosen == 0) & (ess < 2 * FLOOR * filter.num_nodes)
    here = (xp.arange(POOLED_ROUNDS) == (rounds.number + 1) % POOLED_ROUNDS)[:, None]
    return Rounds(
        number=rounds.number + xp.ones((), xp.int32),
        nodes=nodes,
        z=xp.where(here[:, :, None], z, rounds.z),
        log_base=xp.where(here, xp.asarray(nodes.log_prior - nodes.log_proposal), rounds.log_base),
        log_likelihood=xp.where(here, xp.asarray(nodes.log_likelihood), rounds.log_likelihood),
        width=xp.where(is_low, xp.maximum(NARROWER * rounds.width, NARROWEST), rounds.width).astype(ess.dtype),
        ess=ess,
    )


def _from_prior(filter: NodeFilter, key: KeyArray, kept: Kept, time: Int[Numbers, ""]) -> Nodes:
    xp = numbers(key, kept, time)
    e, _ = filter.compiled(node_points, compiler_options=RUN_ONCE)(key, time, xp.zeros((), xp.int32))
    z = filter.prior.at(xp.asarray(e))
    return as_known(filter.compiled(through)(z, filter.prior.log_density(z), kept, time))


def as_known(nodes: Nodes) -> Nodes:
    """Turn nodes into arrays of NumPy, unless they are traced."""
    return nodes if is_traced(nodes) else on_host(nodes)


def node_points(filter: NodeFilter, key: KeyArray, time: Int[Numbers, ""], number: Int[Numbers, ""]) -> Any:
    """Return a lattice of as many points as there are nodes."""
    return scattered(key, time, number, filter.points)


def through(
    filter: NodeFilter,
    z: Float[Numbers, "node param"],
    log_proposal: Float[Numbers, " node"],
    kept: Kept,
    time: Int[Numbers, ""],
) -> Nodes:
    """Make nodes and take them through the first observations."""

    def turn(index, nodes):
        y, inputs = jax.tree.map(lambda leaf: leaf[index], (kept.ys, kept.inputs))
        return observe(filter, nodes, y, inputs)

    return jax.lax.fori_loop(0, time, turn, fresh_nodes(filter, z, log_proposal, kept.initial_inputs))


def another_round(
    filter: NodeFilter,
    state: NodeState,
    z: Float[Numbers, "node param"],
    log_weights: Float[Numbers, " node"],
    number: int,
) -> tuple[Nodes, Mixture]:
    """Draw nodes around weighted ones, once, and take them through all data; outside of a trace."""
    around = mixture_of(z, log_weights, np.asarray(filter.kernel_width), filter.prior)
    e, choice = filter.compiled(node_points, compiler_options=RUN_ONCE)(state.key, state.time, np.int32(number))
    z = around.at(np.asarray(e, np.float64), np.asarray(choice, np.float64))
    precision = jnp.result_type(float)
    log_proposal = around.log_density(z).astype(precision)
    return as_known(filter.compiled(through)(z.astype(precision), log_proposal, state.kept, state.time)), around


def log_likelihood_at(filter: NodeFilter, state: NodeState, z: Float[Numbers, " param"]) -> Float[Numbers, ""]:
    """Return log p(y_1..y_t | theta) of one theta, all data being kept."""
    nodes = through(filter, z[None], jnp.zeros(1), state.kept, state.time)
    return nodes.offset.add(nodes.log_likelihood[0]).value


def pooled(log_weights: Float[Numbers, "round node"]) -> Float[Numbers, " all"]:
    """Return log weights of the nodes of all rounds; a round counts by its effective sample size.

    Rounds are estimates of the same law, and the effective sample size of the pool is then the sum of theirs.
    """
    xp = numbers(log_weights)
    largest = xp.maximum(xp.max(log_weights, axis=1, keepdims=True), LEAST)
    totals = xp.maximum(xp.sum(xp.exp(log_weights - largest), axis=1, keepdims=True), TINY)
    return (log_weights - largest - xp.log(totals) + xp.log(xp.maximum(_sizes(log_weights), TINY))[:, None]).reshape(-1)


def _sizes(log_weights: Float[Numbers, "*power round node"]) -> Float[Numbers, "*power round"]:
    """Return the effective sample size of each round, 0 for one that is still to come."""
    xp = numbers(log_weights)
    weights = xp.exp(log_weights - xp.maximum(xp.max(log_weights, axis=-1, keepdims=True), LEAST))
    return xp.sum(weights, axis=-1) ** 2 / xp.maximum(xp.sum(weights**2, axis=-1), TINY)
