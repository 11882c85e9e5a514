"""One large filter, shared out over devices: each device holds an island and resamples by itself.

Particles never travel. What is sent at a step are a few numbers for each island, for the evidence, for R-hat and for
what the step says of itself; so the cost of a step is that of the largest device, at any number of them. The posterior
is the pool of all devices, each with the same share (see `filters.islands`).

>>> import jax, numpyro.distributions as dist, paramfilter as pf
>>> model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5))
>>> from paramfilter.sharded import ShardedFilter
>>> large = ShardedFilter(pf.storvik_filter(model, 64), jax.make_mesh((jax.device_count(),), ("device",)))
>>> state = large.init(jax.random.key(0))
>>> state, info = large.step(state, 0.3)
>>> int(state.time)
1
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from paramfilter.beliefs import Moments
from paramfilter.errors import DataError
from paramfilter.filters import FilterState, ParticleFilter, StepInfo, mixture_moments, pooled
from paramfilter.filters.islands import IslandMoments, disagreement, island_moments
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.types import Inputs, KeyArray, Observation


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ShardedState:
    """The states of all devices, and the evidence of them together.

    Attributes:
        devices: One `FilterState` whose arrays have a leading axis of devices.
        running_log_evidence: log p(y_1..y_t), as a compensated sum.
    """

    devices: FilterState
    running_log_evidence: CompensatedSum

    @property
    def time(self) -> Int[Array, ""]:
        """How many observations have been taken in."""
        return self.devices.time[0]

    @property
    def log_evidence(self) -> Float[Array, ""]:
        """The estimate of log p(y_1..y_t)."""
        return self.running_log_evidence.value


class ShardedFilter:
    """A filter over the devices of a mesh.

    Args:
        filter: What each device runs; there are as many particles in all as it has, times the devices.
        mesh: The devices, on a mesh of one axis.
    """

    def __init__(self, filter: ParticleFilter, mesh: Mesh):
        if len(mesh.axis_names) != 1:
            raise DataError(f"a large filter needs a mesh of one axis, got {mesh.axis_names}.")
        self.filter = filter
        self.mesh = Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,))
        self._begin = self._on_each_device(_begin, 1, PartitionSpec(self._axis))
        # A step gives its memory back: the state that goes in cannot be used again.
        self._step = self._on_each_device(_step, 2, (PartitionSpec(self._axis), PartitionSpec()), donate_argnums=0)
        self._moments = self._on_each_device(_moments, 0, PartitionSpec())

    def _on_each_device(self, function: Callable, num_common: int, out_specs: Any, **options: Any) -> Any:
        """Compile a function of a device's own part and of some arguments that are the same for all."""
        function = functools.partial(function, self.filter, self._axis)
        in_specs = (PartitionSpec(self._axis), *[PartitionSpec()] * num_common)
        return jax.jit(
            jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False), **options
        )

    @property
    def _axis(self) -> str:
        return self.mesh.axis_names[0]

    @property
    def num_particles(self) -> int:
        """On all devices together."""
        return self.filter.num_particles * self.mesh.size

    def init(self, key: KeyArray, inputs: Inputs = None) -> ShardedState:
        """Draw particles on each device; no data are seen."""
        data = np.asarray(jax.vmap(lambda place: jax.random.key_data(jax.random.fold_in(key, place)))(
            jnp.arange(self.mesh.size)
        ))  # fmt: skip
        own = NamedSharding(self.mesh, PartitionSpec(self._axis))
        keys = jax.make_array_from_callback(data.shape, own, lambda place: data[place])
        keys = jax.random.wrap_key_data(keys, impl=jax.random.key_impl(key))
        devices = self._begin(keys, self.filter.as_inputs(inputs))
        return ShardedState(devices, CompensatedSum.start(jnp.zeros((), devices.log_weights.dtype)))

    def step(self, state: ShardedState, y: Observation, inputs: Inputs = None) -> tuple[ShardedState, StepInfo]:
        """Take in one observation. `state` cannot be used again.

        Args:
            state: The state so far.
            y: The observation; NaN where missing. Every process gives the same.
            inputs: What the model is told at this step.
        """
        devices, info = self._step(state.devices, self.filter.as_observation(y), self.filter.as_inputs(inputs))
        # As in a filter: a step that failed everywhere is flagged, and does not count.
        gained = jnp.where(jnp.isfinite(info.log_evidence_increment), info.log_evidence_increment, 0.0)
        return ShardedState(devices, state.running_log_evidence.add(gained)), info

    def mean(self, state: ShardedState) -> dict[str, Array]:
        """Return the posterior means, by name."""
        return self._moments(state.devices).mean

    def sd(self, state: ShardedState) -> dict[str, Array]:
        """Return the posterior standard deviations."""
        return jax.tree.map(jnp.sqrt, self._moments(state.devices).variance)


def _begin(filter: ParticleFilter, axis: str, keys: Key[Array, " device"], inputs: Inputs) -> FilterState:
    return _leading(filter.init(keys[0], inputs))


def _step(
    filter: ParticleFilter, axis: str, devices: FilterState, y: Observation, inputs: Inputs
) -> tuple[FilterState, StepInfo]:
    state, info = filter.step(_only(devices), y, inputs)
    islands = island_moments(filter.num_islands, state.z, state.log_weights)
    # A few numbers a device. Each device then pools them by itself: no reduction that some engine might not know.
    return _leading(state), _pooled_info(*jax.lax.all_gather((info, islands), axis))


def _moments(filter: ParticleFilter, axis: str, devices: FilterState) -> Moments:
    each = jax.lax.all_gather(mixture_moments(filter, _only(devices)), axis)
    return pooled(jnp.zeros(jax.lax.axis_size(axis)), each)


def _leading(tree: Any) -> Any:
    """Give a device's own results the axis that devices share out."""
    return jax.tree.map(lambda leaf: leaf[None], tree)


def _only(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _pooled_info(each: StepInfo, islands: IslandMoments) -> StepInfo:
    """Say of all devices together what one filter with all their islands would say."""
    num_devices = each.ess.shape[0]
    all_islands = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), islands)
    return replace(
        each,
        ess=jnp.sum(each.ess),
        log_evidence_increment=jax.nn.logsumexp(each.log_evidence_increment) - jnp.log(num_devices),
        outcome=jax.lax.reduce(each.outcome, jnp.int32(0), jax.lax.bitwise_or, (0,)),
        resampled=jnp.any(each.resampled),
        num_nan=jnp.sum(each.num_nan),
        approximation_error=jnp.sqrt(jnp.mean(each.approximation_error**2)),
        rhat=disagreement(all_islands),
        num_unique_ancestors=jnp.sum(each.num_unique_ancestors),
        forecast=jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), each.forecast),
        pit=jax.tree.map(lambda leaf: leaf[0], each.pit),  # a mean of ranks would not be uniform
    )
