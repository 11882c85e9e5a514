"""Beliefs of different kinds about different parameters of one model, where these teach nothing about each other.

Parameters fall into blocks that are independent given the states if the log density of a step is a sum,

    log p(x' | x, theta) + log p(y | x', theta) = sum_b l_b(d, theta_b) + l_0(d),

of terms in the data d = (x, x', y) and one block each, and that of x_0 as well; priors are independent by name already.
Then the posterior given a path is a product, and each factor may have the belief that suits it: an exact one where
there is one, values at nodes or pivots for the rest. Several small statistics are cheaper than one for all parameters.

Each belief is bound to a model of its own, in which the parameters of the other blocks stand still at the median of
their prior: that changes its log density by a term without theta_b, which cancels. At `bind` the sum is put to the
test, in float64 at data drawn from the model: for two parameters a and b of different blocks

    l(a, b) - l(a', b) - l(a, b') + l(a', b') = 0,

or the blocks are refused. When it lies: a tie that shows only at data the model hardly ever draws can slip through.

>>> import jax.numpy as jnp, numpyro.distributions as dist
>>> from paramfilter.beliefs.chebyshev import Chebyshev
>>> from paramfilter.beliefs.conjugate import Conjugate
>>> model = StateSpaceModel(
...     prior={"phi": dist.Normal(0.3, 0.2), "r": dist.LogNormal(0.0, 1.0)},
...     initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
...     transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
...     observation=lambda theta, x, inputs: dist.Cauchy(x, theta["r"]),
... )
>>> Blocks({"phi": Conjugate(), "r": Chebyshev(num_nodes=17)}).bind(model).name
'Blocks(phi: Conjugate, r: Chebyshev(num_nodes=17))'
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.beliefs.base import Belief, BoundBelief, Draw, Moments, absorb_alone, no_outcome
from paramfilter.beliefs.coordinates import coordinates_for
from paramfilter.errors import BeliefError
from paramfilter.model import StateSpaceModel
from paramfilter.separability.dependence import probe_data

NUM_PROBES = 64
"""Data at which the sum is put to the test; they cost one compile, however many they are."""

TOLERANCE = 1e-8
"""Mixed difference, relative to the log densities it is made of, that rounding in float64 stays far below."""

EXAMPLE = 'Blocks({"phi": Conjugate(), ("gamma", "c"): CrossInterpolation()})'

Names = tuple[str, ...]
Parts = Mapping[str | Names, Belief] | Iterable[tuple[str | Names, Belief]]


@dataclass(frozen=True)
class Blocks(Belief):
    """One belief for each block of parameters, for blocks that are independent given the states.

    Args:
        parts: A belief by the name of its parameter, or by a tuple of names. Kept as a tuple of pairs.
    """

    parts: Parts

    def __post_init__(self):
        pairs = self.parts.items() if isinstance(self.parts, Mapping) else self.parts
        parts = tuple(((key,) if isinstance(key, str) else tuple(key), belief) for key, belief in pairs)
        for names, belief in parts:
            if not isinstance(belief, Belief):
                raise BeliefError(
                    f"the block {list(names)} has {belief!r} for a belief. Write, for example, {EXAMPLE}."
                )
        object.__setattr__(self, "parts", parts)

    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit each belief to its part of the model, or say which parameters hang together."""
        pairs: tuple[tuple[Names, Belief], ...] = tuple(self.parts)  # pyright: ignore[reportAssignmentType]
        blocks = tuple(names for names, _ in pairs)
        _require_cover(model, blocks)
        _require_independence(model, blocks)
        bound = tuple(_bind_part(model, names, belief) for names, belief in pairs)
        places = tuple(_places(model, names) for names in blocks)
        listed = ", ".join(f"{'+'.join(names)}: {part.name}" for names, part in zip(blocks, bound, strict=True))
        return BoundBlocks(model, bound, places, f"Blocks({listed})")


@dataclass(frozen=True, eq=False)
class BoundBlocks(BoundBelief):
    """The beliefs, each bound to its own part of the model; statistic and shared are tuples of theirs.

    Args:
        model: The whole model.
        bound: The belief of each block.
        places: Where the coordinates of each block stand in the vector z of the whole model.
        name: What checkpoints call the belief.
    """

    model: StateSpaceModel
    bound: tuple[BoundBelief, ...]
    places: tuple[np.ndarray, ...]
    name: str

    def start(self):
        return tuple(part.start() for part in self.bound)

    def start_shared(self, z):
        return tuple(part.start_shared(z[:, place]) for part, place in zip(self.bound, self.places, strict=True))

    @property
    def needs_fresh_copies(self):
        return any(part.needs_fresh_copies for part in self.bound)

    def absorb_initial(self, shared, statistic, x, inputs):
        return tuple(
            part.absorb_initial(own_shared, own, x, inputs)
            for part, own_shared, own in zip(self.bound, shared, statistic, strict=True)
        )

    def absorb(self, shared, statistic, datum):
        return absorb_alone(self, shared, statistic, datum)

    def absorb_all(self, shared, statistics, data):
        return tuple(
            part.absorb_all(own_shared, own, data)
            for part, own_shared, own in zip(self.bound, shared, statistics, strict=True)
        )

    def faded(self, statistic, share):
        return tuple(part.faded(own, share) for part, own in zip(self.bound, statistic, strict=True))

    @property
    def cannot_fade(self):
        return tuple(name for part in self.bound for name in part.cannot_fade)

    @property
    def can_mix(self):
        # The even mixture of two products is no product, unless there is one block.
        return len(self.bound) == 1 and self.bound[0].can_mix

    def mixed(self, shared, first, second):
        return (self.bound[0].mixed(shared[0], first[0], second[0]),)

    @property
    def holds_mixtures(self):
        return len(self.bound) == 1 and self.bound[0].holds_mixtures

    def absorb_from_many(self, shared, statistics, data, ancestors):
        return (self.bound[0].absorb_from_many(shared[0], statistics[0], data, ancestors),)

    def can_mix_now(self, shared):
        return self.bound[0].can_mix_now(shared[0])

    def draw(self, key, shared, statistic, previous):
        z, outcome = previous, no_outcome()
        keys = jax.random.split(key, len(self.bound))
        for part, place, own_key, own_shared, own in zip(self.bound, self.places, keys, shared, statistic, strict=True):
            drawn = part.draw(own_key, own_shared, own, previous[place])
            z, outcome = z.at[place].set(drawn.z), outcome | drawn.outcome
        return Draw(z, outcome)

    def moments(self, shared, statistic, z):
        found = [
            part.moments(own_shared, own, z[place])
            for part, place, own_shared, own in zip(self.bound, self.places, shared, statistic, strict=True)
        ]
        mean, variance = (
            functools.reduce(dict.__or__, dicts)
            for dicts in ([one.mean for one in found], [one.variance for one in found])
        )
        names = self.model.parameters.names
        return Moments({name: mean[name] for name in names}, {name: variance[name] for name in names})

    def log_prob(self, shared, statistic, z):
        parts = zip(self.bound, self.places, shared, statistic, strict=True)
        return sum(
            (part.log_prob(own_shared, own, z[place]) for part, place, own_shared, own in parts),
            start=jnp.zeros((), z.dtype),
        )

    def approximation_error(self, shared, statistic):
        # The log ratio of two products is a sum of independent terms: their variances add up.
        parts = zip(self.bound, shared, statistic, strict=True)
        errors = [part.approximation_error(own_shared, own) for part, own_shared, own in parts]
        return jnp.sqrt(sum((error**2 for error in errors), start=jnp.zeros(())))

    def regroup(self, shared, statistics, z, log_weights, is_fresh):
        parts = zip(self.bound, self.places, shared, statistics, strict=True)
        renewed = [
            part.regroup(own_shared, own, z[:, place], log_weights, is_fresh) for part, place, own_shared, own in parts
        ]
        return tuple(own_shared for own_shared, _ in renewed), tuple(own for _, own in renewed)

    def witness(self, key, shared, data, z, log_weights, time):
        keys = jax.random.split(key, len(self.bound))
        return tuple(
            part.witness(own_key, own_shared, data, z[:, place], log_weights, time)
            for part, place, own_key, own_shared in zip(self.bound, self.places, keys, shared, strict=True)
        )


def _require_cover(model: StateSpaceModel, blocks: tuple[Names, ...]) -> None:
    """Refuse blocks that leave a parameter out, name one twice, or name one that is not there."""
    own, given = model.parameters.names, [name for names in blocks for name in names]
    missing = [name for name in own if name not in given]
    unknown = [name for name in given if name not in own]
    twice = sorted({name for name in given if given.count(name) > 1})
    if missing or unknown or twice or not all(blocks):
        raise BeliefError(
            f"Blocks needs each parameter of the model, {list(own)}, in exactly one block; missing: {missing}, "
            f"unknown: {unknown}, named twice: {twice}. Write, for example, {EXAMPLE}."
        )


def _require_independence(model: StateSpaceModel, blocks: tuple[Names, ...]) -> None:
    """Refuse blocks whose parameters are tied together by the log density of a step or of x_0."""
    pairs = [pair for two in itertools.combinations(blocks, 2) for pair in itertools.product(*two)]
    if not pairs:
        return
    if model.parameters.joint is not None:
        raise BeliefError(
            "Blocks needs parameters that are independent under the prior, and this one is a joint Gaussian, fitted "
            "to draws; use CrossInterpolation()."
        )
    masks = np.zeros((len(pairs), 2, model.parameters.dimension), bool)
    for row, pair in enumerate(pairs):
        for side, name in enumerate(pair):
            masks[row, side, model.parameters.slices[name]] = True

    def log_densities(z, datum):
        theta = model.parameters.constrain(z)
        step = model.transition_log_prob(theta, datum.x_prev, datum.x, datum.inputs)
        step += model.observation_log_prob(theta, datum.x, datum.y, datum.inputs)
        return jnp.stack([step, model.initial_log_prob(theta, datum.x_prev, datum.inputs)])

    def mixed_difference(mask, z, other, datum):
        """Return the mixed difference when two parameters change, and the size of what it is made of."""
        both = jnp.where(mask[0] | mask[1], other, z)
        points = jnp.stack([z, jnp.where(mask[0], other, z), jnp.where(mask[1], other, z), both])
        values = jax.vmap(lambda point: log_densities(point, datum))(points)
        return values[0] - values[1] - values[2] + values[3], jnp.max(jnp.abs(values), axis=0)

    over_probes = jax.vmap(mixed_difference, in_axes=(None, 0, 0, 0))
    with jax.enable_x64(True):
        z, data = probe_data(model, NUM_PROBES)
        # Neighbouring draws are independent, so a neighbour is as good as a fresh draw.
        differences, sizes = jax.jit(jax.vmap(over_probes, in_axes=(0, None, None, None)))(
            jnp.asarray(masks), z, jnp.roll(z, 1, axis=0), data
        )
    differences, sizes = np.asarray(differences), np.asarray(sizes)
    # A value outside the support says nothing about a sum.
    is_known = np.isfinite(differences) & np.isfinite(sizes)
    is_tied = np.any(is_known & (np.abs(differences) > TOLERANCE * (1.0 + sizes)), axis=(1, 2))
    is_seen = np.any(is_known[:, :, 0], axis=1)
    for (first, second), tied, seen in zip(pairs, is_tied, is_seen, strict=True):
        cure = f'Put them in one block: Blocks({{("{first}", "{second}"): CrossInterpolation(), ...}}).'
        if tied:
            raise BeliefError(
                f'"{first}" and "{second}" stand in different blocks, but the model ties them together: what a step '
                f"says about one depends on the other. {cure}"
            )
        if not seen:
            raise BeliefError(
                f'whether "{first}" and "{second}" are independent given the states cannot be tried: the log density '
                f"is not finite when one of them changes. {cure}"
            )


def _bind_part(model: StateSpaceModel, names: Names, belief: Belief) -> BoundBelief:
    try:
        return belief.bind(_part_of_model(model, names))
    except BeliefError as error:
        raise BeliefError(f"in the block {list(names)}: {error}") from error


def _part_of_model(model: StateSpaceModel, names: Names) -> StateSpaceModel:
    """Return the model with the parameters `names` unknown and all others at the median of their prior."""
    with jax.enable_x64(True):
        center = jnp.asarray(coordinates_for(model.parameters, None).center)
        median = {name: np.asarray(value) for name, value in model.parameters.constrain(center).items()}

    def completed(theta):
        # Made at each call: the precision is that of the caller.
        fixed = {name: jnp.asarray(value, float) for name, value in median.items() if name not in names}
        return {**fixed, **theta}

    part = StateSpaceModel(
        prior={name: model.prior[name] for name in names},
        initial=lambda theta, inputs: model.initial(completed(theta), inputs),
        transition=lambda theta, x, inputs: model.transition(completed(theta), x, inputs),
        observation=lambda theta, x, inputs: model.observation(completed(theta), x, inputs),
        name=f"{model.name} ({', '.join(names)})",
        example_inputs=model.example_inputs,
        typical_inputs=model.typical_inputs,
    )
    _ = part.parameters  # made here and now: a belief that does not ask at bind would make them inside a trace
    return part


def _places(model: StateSpaceModel, names: Names) -> np.ndarray:
    """Return where the coordinates of these parameters stand in z, in the order of the block."""
    slices = model.parameters.slices
    return np.concatenate([np.arange(slices[name].start, slices[name].stop) for name in names])
