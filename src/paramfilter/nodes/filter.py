"""The node filter and its engine. What a step does is in `loop`, how nodes are renewed in `renewal`."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from paramfilter.arguments import positive, whole_number
from paramfilter.errors import ModelError
from paramfilter.filters import Engine, Filter, History, Moments, OutlierGate, Records
from paramfilter.filters.fingerprint import model_fingerprint, settings_of
from paramfilter.gaussian import Gaussian
from paramfilter.model import StateSpaceModel
from paramfilter.nodes.advance import (
    advance,
    empty_records,
    forecast_by_nodes,
    state_mean_and_variance,
    summarise,
    theta_moments,
    weighted_moments,
)
from paramfilter.nodes.inner.base import InnerFilter
from paramfilter.nodes.lattice import lattice
from paramfilter.nodes.loop import is_due
from paramfilter.nodes.posterior import NodePosterior
from paramfilter.nodes.proposals import KERNEL_WIDTH, Mixture, mixture_of, prior_normal
from paramfilter.nodes.reading import ACCURACY, effective_nodes_for, read_in_trace
from paramfilter.nodes.renewal import renew, renew_in_trace, renewed_step
from paramfilter.nodes.replay import first_state
from paramfilter.nodes.state import NodeInfo, NodeState
from paramfilter.nodes.stretch import step_if, take_in
from paramfilter.numerics.weights import choose_by_weight
from paramfilter.tracing import RUN_ONCE, numbers
from paramfilter.types import Inputs, KeyArray, Numbers, Observation

LOWEST_ESS = 0.15
"""Share of effective nodes below which they are renewed."""
MOST_WANTED = 0.3
"""The same at most, if a posterior as accurate as asked needs more: renewing nodes costs less than adding some at each
reading. Renewals leave 20 to 40 % of the nodes effective, so more would have them renewed all the time."""
SINGLE_WIDTH = 1.2
"""Of the Gaussian that stands for kernels if there are many parameters, in posterior sds."""
MANY_PARAMETERS = 5
"""From which on new nodes come from one Gaussian and from kernels by turns: at ten parameters kernels overlap so little
that no node is near another, and the weights are noise; but one Gaussian misses lobes."""
FEWEST_NODES = 16
FADED = 10
"""Memories after which an observation is forgotten: it then counts 5e-5 of a new one."""


def kept_for(memory: float) -> int:
    """Return how many observations a filter with this memory keeps: replays begin one or two times `FADED` ago."""
    return math.ceil(2 * FADED * memory)


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeEngine(Engine):
    """What steps, renewals and readings need; `NodeFilter` documents the arguments."""

    state_kind: ClassVar[type] = NodeState
    unit: ClassVar[str] = "nodes"
    renews: ClassVar[bool] = True

    num_nodes: int
    inner: InnerFilter
    num_kept: int
    accuracy: float

    def __post_init__(self):
        super().__post_init__()
        advice = "Leave it out for a number that suits the model."
        whole_number(self.num_nodes, "num_nodes", FEWEST_NODES, advice, ModelError)
        whole_number(self.num_kept, "num_kept", 1, advice, ModelError)
        positive(self.accuracy, "accuracy", "It is the error of a posterior mean, in posterior sds.", ModelError)
        if self.memory is not None and not 1 < self.memory < np.inf:
            hint = "Leave it out to forget nothing."
            raise ModelError(f"memory must be longer than one observation, got {self.memory!r}. {hint}")
        if self.memory is not None:
            least = kept_for(self.memory)
            whole_number(self.num_kept, "num_kept", least, f"memory={self.memory:g} needs that many.", ModelError)
        _ = (self.shapes, self.points, self.fingerprint)

    def __repr__(self) -> str:
        return f"NodeFilter({self.model.name}, {self.num_nodes} nodes, {self.inner.name})"

    @property
    def size(self) -> int:
        return self.num_nodes

    @cached_property
    def fingerprint(self) -> str:
        sizes = {
            "belief": self.inner.name,
            "particles": self.num_nodes,
            "kept": self.num_kept,
            "memory": self.memory,
        }
        return json.dumps(model_fingerprint(self.model, {**sizes, **settings_of(outliers=self.outliers)}))

    @property
    def stride(self) -> int:
        """Steps between two times from which replays may begin, in a filter that forgets."""
        return self.num_kept // 2

    def place(self, time: Any) -> Any:
        """Return where the observation after `time` ones is kept; without `memory` this may be out of bounds."""
        return time if self.memory is None else time % self.num_kept

    def first_replayed(self, time: Any) -> Any:
        """Return how many observations new nodes are not run through: none, or those that are forgotten."""
        return 0 if self.memory is None else numbers(time).maximum(time // self.stride - 1, 0) * self.stride

    def can_replay(self, time: Any) -> Any:
        """Tell whether all observations are kept that count."""
        return numbers(time).asarray(time <= self.num_kept) | (self.memory is not None)

    def share_left(self, num_steps: Any) -> Any:
        """Return how much an observation counts so many steps later."""
        return 1.0 if self.memory is None else (1 - 1 / self.memory) ** num_steps

    def num_counted(self, time: int) -> float:
        """Return how many new observations the first `time` ones count as much as."""
        return float(time) if self.memory is None else self.memory * (1 - self.share_left(time))

    @property
    def lowest_ess(self) -> float:
        """Effective nodes below which they are renewed."""
        wanted = effective_nodes_for(self.accuracy, self.num_nodes, self.model.parameters.dimension)
        return max(LOWEST_ESS * self.num_nodes, wanted if wanted <= MOST_WANTED * self.num_nodes else 0.0)

    def mixture(
        self,
        z: Float[Numbers, "node param"],
        log_weights: Float[Numbers, " node"],
        log_flat: Float[Numbers, " node"],
        prior: Gaussian,
        number: Int[Numbers, ""] | int = 0,
        kernel_width: Float[Numbers, ""] | float = KERNEL_WIDTH,
    ) -> Mixture:
        """Return the distribution that new nodes are drawn from, around weighted ones (see `mixture_of`).

        Args:
            z: The nodes.
            log_weights: Unnormalised.
            log_flat: The same with the square root of the likelihood.
            prior: A Gaussian that is like the prior.
            number: Of the round: with many parameters one Gaussian takes turns with the kernels, and comes first.
            kernel_width: In posterior sds.
        """
        is_single = self.model.parameters.dimension >= MANY_PARAMETERS and number % 2 == 0
        width = numbers(z, log_weights, is_single).where(is_single, SINGLE_WIDTH, kernel_width).astype(z.dtype)
        return mixture_of(z, log_weights, log_flat, width, prior, self.num_nodes, is_single)

    @cached_property
    def points(self) -> Float[np.ndarray, "node dimension"]:
        """The lattice that nodes come from: those of theta, and two to choose a component and a center."""
        return lattice(self.num_nodes, self.model.parameters.dimension + 2)

    @cached_property
    def prior(self) -> Gaussian:
        """A Gaussian like the prior."""
        return prior_normal(self.model.parameters)

    @property
    def example_inputs(self) -> Inputs:
        """Inputs of one step."""
        return self.as_inputs(self.model.example_inputs)

    @cached_property
    def observation_shapes(self) -> PyTree:
        """Of one observation, in floats."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.result_type(float)), self.shapes.y)

    @cached_property
    def input_shapes(self) -> PyTree:
        """Of the inputs of one step."""
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), self.example_inputs)

    def init(self, key: KeyArray, inputs: Inputs, prior: Gaussian | None = None) -> NodeState:
        return first_state(self, key, inputs, prior)

    def step(self, state: NodeState, y: Observation, inputs: Inputs) -> tuple[NodeState, NodeInfo]:
        return renewed_step(self, state, y, inputs)

    def step_if(
        self, state: NodeState, y: Observation, inputs: Inputs, has_one: Bool[Array, ""]
    ) -> tuple[NodeState, NodeInfo]:
        return step_if(self, state, y, inputs, has_one)

    def is_due(self, state: NodeState) -> Bool[Array, ""]:
        return is_due(self, state)

    def renew(self, state: NodeState) -> tuple[NodeState, Int[Array, ""]]:
        return renew_in_trace(self, state)

    def advance(
        self, state: NodeState, ys: Observation, inputs: Inputs, num_steps: int, records: Records = "all"
    ) -> tuple[NodeState, History | None]:
        inputs, done = self.as_inputs(inputs), 0
        has_records = records != "none" or self.outliers is not None  # screening needs the forecasts of a history
        history = self.blank if has_records else None
        while done < num_steps:
            rows = ys, inputs, np.int32(done), np.int32(num_steps)
            if history is None:
                state, index, _ = self.compiled(take_in)(state, *rows)
            else:
                state, history, index = self.compiled(advance)(state, history, *rows, np.bool_(records == "all"))
            done = int(index)
            if is_due(self, state):
                state, flags = renew(self, state)
                history = history and self._renewed_row(state, flags, history, done - 1)
        return state, jax.tree.map(np.asarray, history) if records != "none" else None

    @cached_property
    def blank(self) -> History:
        """A history of one window, to be filled."""
        state = jax.eval_shape(lambda key: first_state(self, key, self.example_inputs), jax.random.key(0))
        return empty_records(self, state)

    def _renewed_row(self, state: NodeState, flags: Any, records: History, place: int) -> History:
        """Write the last row of a history anew, with the nodes there are now."""
        records = jax.tree.map(np.array, records)
        was = jax.tree.map(lambda leaf: leaf[place], records.info)
        info = replace(
            was,
            ess=np.asarray(state.nodes.ess),
            renewed=np.bool_(True),
            surface_error=np.sqrt(np.max(np.asarray(state.surface_error))),
            outcome=was.outcome | flags,
        )
        row = self.summary(state, info)

        def put(rows, leaf):
            rows[place] = leaf
            return rows

        return jax.tree.map(put, records, row)

    def posterior(self, state: NodeState) -> NodePosterior:
        return NodePosterior(self, state)

    def summary(self, state: NodeState, info: NodeInfo) -> History:
        return self.compiled(summarise)(state, info)

    def moments(self, state: NodeState) -> Moments:
        return theta_moments(state)

    def read_moments(self, state: NodeState) -> Moments:
        theta, weights = read_in_trace(self, state)
        return Moments(*weighted_moments(weights, theta))

    def forecast_moments(
        self, state: NodeState, y: Observation, inputs: Inputs
    ) -> tuple[Float[Array, " obs"], Float[Array, " obs"]]:
        forecast = forecast_by_nodes(self, state, y, inputs)
        return forecast.mean, jnp.sqrt(forecast.variance)

    def state_moments(self, state: NodeState) -> tuple[PyTree, PyTree]:
        return state_mean_and_variance(self, state)

    def draw_joint(
        self, state: NodeState, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
    ) -> tuple[PyTree, Float[Array, "draw param"]]:
        nodes = state.nodes
        chosen = choose_by_weight(key_choose, nodes.log_weights - nodes.log_total, len(keys_draw))
        x = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, 0)[chosen], nodes.x)
        return jax.vmap(self.inner.sample)(keys_draw, x), nodes.z[chosen]

    def particles(self, state: NodeState) -> tuple[PyTree, Float[Array, "node param"], Float[Array, " node"]]:
        return self.compiled(_particles, compiler_options=RUN_ONCE)(state)


class NodeFilter(Filter):
    """Values of theta, the nodes, each with a filter for the state given theta.

    Args:
        model: The model.
        num_nodes: N.
        inner: The filter for the state given theta, bound to the model.
        num_kept: Observations that are kept, so that new nodes can be taken through them.
        outliers: What to do with observations far outside the forecasts; None takes them at their word.
        accuracy: Posterior sds. While data are kept, `posterior` adds points until its means are known so well, and
            nodes are renewed before it has to, if there are nodes enough.
        memory: Number of observations after which a datum counts 1/e of a new one; None forgets nothing.
    """

    engine: NodeEngine

    def __init__(
        self,
        model: StateSpaceModel,
        num_nodes: int,
        inner: InnerFilter,
        num_kept: int,
        outliers: OutlierGate | None = None,
        accuracy: float = ACCURACY,
        memory: float | None = None,
    ):
        sizes = {"num_nodes": num_nodes, "num_kept": num_kept, "accuracy": accuracy}
        super().__init__(NodeEngine(model=model, inner=inner, outliers=outliers, memory=memory, **sizes))


def _particles(engine: NodeEngine, state: NodeState) -> tuple[PyTree, Array, Array]:
    nodes = state.nodes
    return engine.inner.moments(nodes.x)[0], nodes.z, nodes.log_weights - nodes.log_total
