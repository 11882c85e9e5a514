"""New nodes that are taken through the data that were kept: exact, whatever the posterior looks like.

Rounds of proposing and weighing:

1. Weigh the nodes of the last rounds by p(theta) L(theta) / q(theta), L the likelihood of all data. If the effective
   sample size would be too small, the last observation counts less, to a power beta: the nodes were good before it.
   If that is not enough, L itself is taken to a power.
2. Draw new nodes from the mixture around them (`proposals`), and take them through all data.
3. Stop when beta is 1 and the new nodes alone are enough.

Renewals come at times that grow geometrically, so all replays together cost a few passes over the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from paramfilter.gaussian import Gaussian
from paramfilter.nodes.lattice import scattered
from paramfilter.nodes.loop import faded, fresh_nodes, observe
from paramfilter.nodes.pool import Pool, effective
from paramfilter.nodes.proposals import KERNEL_WIDTH, Mixture, Prior
from paramfilter.nodes.state import Kept, Nodes, NodeState
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.outcome import Outcome
from paramfilter.tracing import RUN_ONCE, is_traced, loop_while, numbers, on_host
from paramfilter.types import Inputs, KeyArray, Numbers, Theta

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine

MAX_ROUNDS = 40
"""Most renewals take 1 to 5; 64 nodes mostly 13 or fewer on their way to 4 slopes under N(0, 1,000). Where 40 are not
enough, there are too few nodes."""
POOLED_ROUNDS = 4
"""Rounds whose nodes say together where the next ones should be."""
COLLAPSED = 1.05
"""Effective nodes below which nodes are always renewed."""
FLOOR = 0.1
"""Share of effective nodes that a proposal may rest on."""
ENOUGH, LESS_PER_ROUND, FEWEST = 0.4, 0.05, 0.2
"""Share of effective nodes that ends the rounds, and how it falls with each of them, down to the fewest."""
LEAST_SHARE, LEAST_PER_PARAMETER = 0.03, 3
"""Share of effective nodes, and number for each parameter, below which it is said that there are too few."""
NARROWER, NARROWEST = 0.75, 0.2
"""Factor by which kernels become narrower if too few nodes were effective, and the least width."""
HALF = 0.5
"""Power of the likelihood by which some centers of kernels are chosen."""
BETAS = 2.0 ** -(np.arange(48) / 2)
POWERS = np.array([[*np.ones(len(BETAS)), *BETAS], [*BETAS, *BETAS]])
"""Powers that are tried, in this order: of the likelihood of the data before the last observation, and of the last."""


def first_state(engine: NodeEngine, key: KeyArray, inputs: Inputs, normal: Gaussian | None = None) -> NodeState:
    """Place nodes over the prior, or over a Gaussian in its place; no data are seen."""
    xp = numbers(key, inputs, normal)
    prior = Prior(engine.prior if normal is None else normal, xp.asarray(normal is not None))
    room = lambda leaf: xp.zeros((engine.num_kept, *leaf.shape), leaf.dtype)
    kept = Kept(jax.tree.map(room, engine.observation_shapes), jax.tree.map(room, engine.input_shapes), inputs, prior)
    time = xp.zeros((), xp.int32)
    nodes = _from_prior(engine, key, kept, time)
    if engine.memory is not None:
        kept = replace(kept, starts=jax.tree.map(lambda leaf: xp.stack([leaf, leaf]), _heaviest(nodes)))
    return NodeState(
        key=key,
        time=time,
        nodes=nodes,
        kept=kept,
        trigger=xp.asarray(engine.lowest_ess, jnp.result_type(float)),
        skipped=jax.tree.map(lambda leaf: xp.zeros(leaf.shape, xp.int32), engine.observation_shapes),
        surface_error=xp.zeros(engine.model.parameters.dimension, jnp.result_type(float)),
        outcome=xp.zeros((), xp.int32),
        fingerprint=engine.fingerprint,
    )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rounds:
    """What the rounds have brought so far.

    Attributes:
        number: How many there were.
        nodes: Of the best one.
        pool: Nodes of the last rounds, with the distributions that they were drawn from.
        knows_last: Whether the pool knows of all its nodes what the last observation says of them.
        width: Of the next kernels.
        ess: Effective sample size of `nodes`.
    """

    number: Int[Numbers, ""]
    nodes: Nodes
    pool: Pool
    knows_last: Bool[Numbers, ""]
    width: Float[Numbers, ""]
    ess: Float[Numbers, ""]


def renew_by_replay(engine: NodeEngine, state: NodeState) -> NodeState:
    """Replace the nodes, all data being kept."""
    xp = numbers(state)
    goes_on = lambda rounds: (rounds.number == 0) | _is_another_wanted(engine, rounds.number, rounds.ess)
    start = _start(engine, state)
    rounds = loop_while(goes_on, lambda done: _next_round(engine, state, done), start, traced=is_traced(state))
    has_failed = rounds.ess < _least(engine, LEAST_SHARE)
    return replace(
        state,
        nodes=replace(rounds.nodes, faded=state.nodes.faded),
        kept=_with_start(engine, state, rounds.nodes),
        trigger=xp.maximum(xp.minimum(engine.lowest_ess, rounds.ess / 2), COLLAPSED).astype(state.trigger.dtype),
        outcome=state.outcome | xp.where(has_failed, int(Outcome.NODES_TOO_FEW), 0).astype(state.outcome.dtype),
    )


def _heaviest(nodes: Nodes) -> Any:
    """Return what the heaviest node knows of the state, and what was taken off its log likelihood."""
    place = numbers(nodes).argmax(nodes.log_weights)
    return jax.tree.map(lambda leaf: leaf[..., place], nodes.x), nodes.offset


def _with_start(engine: NodeEngine, state: NodeState, nodes: Nodes) -> Kept:
    """Note where later replays may begin, if this is a time for it."""
    xp, kept = numbers(state), state.kept
    if engine.memory is None:
        return kept
    slot = xp.arange(2) == state.time // engine.stride % 2
    is_new = slot & (state.time % engine.stride == 0)
    put = lambda old, new: xp.where(is_new.reshape(-1, *[1] * (old.ndim - 1)), new, old)
    return replace(kept, starts=jax.tree.map(put, kept.starts, _heaviest(nodes)))


def _least(engine: NodeEngine, share: float) -> float:
    """Return an effective sample size: a share of the nodes, but some for each parameter."""
    return max(share * engine.num_nodes, 1.0 * LEAST_PER_PARAMETER * engine.model.parameters.dimension)


def _is_another_wanted(engine: NodeEngine, number: Int[Numbers, ""], ess: Float[Numbers, ""]) -> Bool[Numbers, ""]:
    share = numbers(number, ess).maximum(ENOUGH - LESS_PER_ROUND * (number - 1), FEWEST)
    return (ess < share * engine.num_nodes) & (number < MAX_ROUNDS)


def _start(engine: NodeEngine, state: NodeState) -> Rounds:
    """Begin with the nodes there are; if too few of them are of use, learn what the last observation says of them."""
    xp = numbers(state)
    nodes, ess = state.nodes, xp.asarray(state.nodes.ess)
    is_low = ess < _least(engine, FLOOR)
    again = lambda _: as_known(engine.compiled(through)(nodes.z, nodes.log_proposal, state.kept, state.time))[1]
    log_last = _if(is_low, again, xp.zeros_like(nodes.log_likelihood))
    return Rounds(
        number=xp.zeros((), xp.int32),
        nodes=nodes,
        pool=Pool.start(nodes, log_last, POOLED_ROUNDS, ess.dtype if is_traced(state) else np.float64),
        knows_last=xp.asarray(is_low),
        width=xp.asarray(KERNEL_WIDTH, ess.dtype),
        ess=ess,
    )


def _next_round(engine: NodeEngine, state: NodeState, rounds: Rounds) -> Rounds:
    """Draw nodes around those of the last rounds, and take them through all data."""
    xp = numbers(state)
    pool, number = rounds.pool, rounds.number + xp.ones((), xp.int32)
    are_few = effective(pool.log_weights()) < _least(engine, FLOOR)
    powers = _if(are_few, lambda _: _tempering(engine, rounds), xp.ones(2, pool.z.dtype))
    weights = pool.log_weights(*powers), pool.log_weights(*HALF * powers)
    around = engine.mixture(pool.points, *weights, state.kept.prior.normal, rounds.number, rounds.width)
    nodes, log_last = _drawn(engine, state, around, number)
    ess = xp.asarray(nodes.ess)
    is_low = ~are_few & (ess < 2 * FLOOR * engine.num_nodes)
    # If no other round is wanted, nobody looks at the pool again.
    add = lambda pool: pool.add(nodes, log_last, around, number % POOLED_ROUNDS)
    pool = _if(_is_another_wanted(engine, number, ess), add, pool)
    is_best = (rounds.number == 0) | (ess >= rounds.ess)
    return Rounds(
        number=number,
        nodes=jax.tree.map(lambda new, old: xp.where(is_best, new, old), nodes, rounds.nodes),
        pool=pool,
        knows_last=rounds.knows_last,
        width=xp.where(is_low, xp.maximum(NARROWER * rounds.width, NARROWEST), rounds.width).astype(ess.dtype),
        ess=xp.where(is_best, ess, rounds.ess),
    )


def _tempering(engine: NodeEngine, rounds: Rounds) -> Float[Numbers, "2"]:
    """Return the highest powers, of the data before the last observation and of the last, that leave enough nodes."""
    xp, pool = numbers(rounds), rounds.pool
    is_possible = rounds.knows_last | (POWERS[0] == POWERS[1])
    sizes = xp.where(is_possible, effective(pool.log_weights(*POWERS)), 0.0)
    is_enough = sizes >= _least(engine, FLOOR)
    chosen = xp.where(xp.any(is_enough), xp.argmax(is_enough), xp.argmax(sizes))
    return xp.asarray(POWERS, pool.z.dtype)[:, chosen]


def _if(is_so: Any, change: Callable[[Any], Any], tree: Any) -> Any:
    """Change something if it is so, in a trace or outside of it."""
    if is_traced((is_so, tree)):
        return jax.lax.cond(is_so, change, lambda tree: tree, tree)
    return change(tree) if is_so else tree


def _from_prior(engine: NodeEngine, key: KeyArray, kept: Kept, time: Int[Numbers, ""]) -> Nodes:
    xp = numbers(key, kept, time)
    e, _ = engine.compiled(node_points, compiler_options=RUN_ONCE)(key, time, xp.zeros((), xp.int32))
    normal = kept.prior.normal
    z = normal.at(xp.asarray(e))
    return as_known(engine.compiled(through)(z, normal.log_density(z), kept, time))[0]


def as_known(tree: Any) -> Any:
    """Turn arrays of JAX into NumPy's, unless they are traced."""
    return tree if is_traced(tree) else on_host(tree)


def node_points(engine: NodeEngine, key: KeyArray, time: Int[Numbers, ""], number: Int[Numbers, ""]) -> Any:
    """Return a lattice of as many points as there are nodes."""
    return scattered(key, time, number, engine.points)


def through(
    engine: NodeEngine,
    z: Float[Numbers, "node param"],
    log_proposal: Float[Numbers, " node"],
    kept: Kept,
    time: Int[Numbers, ""],
) -> tuple[Nodes, Float[Numbers, " node"]]:
    """Make nodes and take them through the first observations; return too what they say of the last of these."""

    def turn(index, carry):
        nodes, _ = carry
        y, inputs = jax.tree.map(lambda leaf: leaf[engine.place(index)], (kept.ys, kept.inputs))
        after = observe(engine, nodes, y, inputs)
        before = faded(engine, nodes)
        return after, after.log_likelihood - before.log_likelihood + after.offset.less(before.offset)

    nodes = fresh_nodes(engine, z, log_proposal, kept.prior, kept.initial_inputs)
    first = engine.first_replayed(time)
    if kept.starts is not None:  # what came before has faded, but the state is not where it began
        start = jax.tree.map(lambda leaf: leaf[first // engine.stride % 2], kept.starts)
        known = lambda old, new: jnp.where(first > 0, new[..., None] if old.ndim else new, old)
        x, offset = jax.tree.map(known, (nodes.x, nodes.offset), start)
        nodes = replace(nodes, x=x, offset=offset)
    return jax.lax.fori_loop(first, time, turn, (nodes, jnp.zeros_like(nodes.log_likelihood)))


def another_round(engine: NodeEngine, state: NodeState, pool: Pool, number: int, slot: int) -> tuple[Pool, Theta]:
    """Add a round of nodes to a pool: around those there are, taken through all data; outside of a trace."""
    weights = pool.log_weights(), pool.log_weights(HALF, HALF)
    around = engine.mixture(pool.points, *weights, state.kept.prior.normal, number)
    nodes, log_last = _drawn(engine, state, around, np.int32(number))
    return pool.add(nodes, log_last, around, slot), nodes.theta


def _drawn(
    engine: NodeEngine, state: NodeState, around: Mixture, number: Int[Numbers, ""]
) -> tuple[Nodes, Float[Numbers, " node"]]:
    """Draw nodes from a distribution, and take them through all data; return too what they say of the last."""
    xp, precise = numbers(state, around), around.centers.dtype
    e, choice = engine.compiled(node_points, compiler_options=RUN_ONCE)(state.key, state.time, number)
    z = around.at(xp.asarray(e, precise), xp.asarray(choice, precise))
    usual = lambda leaf: leaf.astype(jnp.result_type(float))
    return as_known(engine.compiled(through)(usual(z), usual(around.log_density(z)), state.kept, state.time))


def log_likelihood_at(
    engine: NodeEngine, z: Float[Numbers, "node param"], kept: Kept, time: Int[Numbers, ""]
) -> CompensatedSum:
    """Return log p(y_1..y_t | theta) at some thetas, all data being kept."""
    nodes, _ = through(engine, z, jnp.zeros(len(z)), kept, time)
    return jax.tree.map(lambda leaf: leaf * jnp.ones(len(z)), nodes.offset).add(nodes.log_likelihood)
