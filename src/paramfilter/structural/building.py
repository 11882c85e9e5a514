"""From a sum of components to a `StateSpaceModel`.

The state is one vector, the blocks of the components one after the other. Its transition is linear and Gaussian, and
the observation depends on it through eta alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.linalg import block_diag
from jaxtyping import Array, Float

from paramfilter.arguments import describe, kind_of, require_kind
from paramfilter.distributions import is_distribution
from paramfilter.errors import ArgumentError, DataError, ModelError
from paramfilter.labels import components_of as places_of
from paramfilter.model import StateSpaceModel
from paramfilter.structural.component import Component, Components, Number, components_of, is_number
from paramfilter.structural.observing import ObservationKind, gaussian
from paramfilter.types import Inputs, Theta


@dataclass(frozen=True, eq=False, repr=False)
class StructuralModel(StateSpaceModel):
    """A `StateSpaceModel` that knows its components; `structural.model` makes it.

    Attributes:
        components: The components, in the order of the state.
        kind: The distribution of the observation given eta.
        known: Parameters that are fixed at a number.
        reads: Shapes of the inputs of one step, by name.
    """

    components: Components = Components(())
    kind: ObservationKind = gaussian()
    known: Mapping[str, Any] = field(default_factory=dict)
    reads: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def states(self) -> tuple[str, ...]:
        """A label for each number of the state."""
        return tuple(label for part in self.components.parts for label in part.states)

    @property
    def labels(self) -> dict[str, str]:
        """The same by the names that plots use: `pf.plots.state(tree, names=model.labels, labels=model.labels)`."""
        places = places_of("x", (len(self.states),))
        return {str(place): label for place, label in zip(places, self.states, strict=True)}

    def predictor_weights(self, inputs: Inputs) -> Float[Array, " state"]:
        """Return h, whose product with the state is eta."""
        named = self.named(inputs)
        return jnp.concatenate([part.row(named) for part in self.components.parts])

    def observation_given(self, theta: Theta, eta: Any, inputs: Inputs) -> Any:
        """Return the distribution of the observation given eta."""
        return self.kind.law({**self.known, **theta}, eta, self.named(inputs))

    def blocks(self, x: Any) -> list[tuple[Component, Any]]:
        """Return each component with its part of a state."""
        ends = np.cumsum([len(part.states) for part in self.components.parts])
        return [(part, x[end - len(part.states) : end]) for part, end in zip(self.components.parts, ends, strict=True)]

    def named(self, inputs: Inputs) -> Inputs:
        """Return the inputs of one step as a dict, or refuse them if they are not what the model reads."""
        return _named(self.reads, inputs)


def model(
    components: Component | Components,
    observation: ObservationKind = gaussian(),
    *,
    scale: Number = 1.0,
    center: Number = 0.0,
    name: str | None = None,
) -> StructuralModel:
    """Make a state-space model from a sum of components and a distribution of the observation.

    Args:
        components: A sum, such as `st.local_level() + st.seasonal(12)`.
        observation: `st.gaussian()`, `st.student_t()`, `st.poisson()` or `st.negative_binomial()`.
        scale: Typical size of the data's variation. It multiplies all usual priors and initial distributions, and not
            those that you pass. The default 1.0 suits standardized data and counts, whose components are on the log
            scale; otherwise pass the standard deviation of some data.
        center: Typical value of the data, at which the level starts; of counts, its logarithm.
        name: Name of the model in messages, checkpoints and plots; None joins the names of the components.

    Returns:
        A `StateSpaceModel`. Its `example_inputs` are set if the components or the observation read inputs.

    Example:
        >>> import paramfilter as pf
        >>> st = pf.structural
        >>> weekly = st.model(
        ...     st.local_level() + st.freq_seasonal(52, harmonics=2) + st.regression(2), st.negative_binomial()
        ... )
        >>> weekly
        StructuralModel(level + seasonal + regression: parameters level_sd, seasonal_sd, concentration; with inputs)
        >>> weekly.states[:3]
        ('level', 'seasonal, cos 1', 'seasonal, sin 1')
    """
    components = components_of(components)
    require_kind(observation, ObservationKind, "observation", "Pass st.gaussian() or st.poisson(), for example.")
    _require_scale_and_center(components, scale, center)
    parts = components.parts
    parameters = {key: one for part in (*parts, observation) for key, one in part.parameters.items()}
    resolved = {key: one.resolve(key, scale) for key, one in parameters.items()}
    prior = {key: value for key, value in resolved.items() if is_distribution(value)}
    if not prior:
        raise ModelError(
            "every parameter of the model is fixed at a number, so there is nothing to learn. Leave out at least one "
            "of the numbers, for example that of st.gaussian()."
        )
    reads = {key: shape for part in (*parts, observation) for key, shape in part.inputs.items()}
    known = {key: value for key, value in resolved.items() if key not in prior}
    values_of = lambda theta: {**known, **theta}

    def initial(theta, inputs):
        starts = [part.start(values_of(theta), scale, center) for part in parts]
        return _normal(jnp.concatenate([mean for mean, _ in starts]), [spread for _, spread in starts])

    def transition(theta, x, inputs):
        values = values_of(theta)
        mean = jnp.concatenate([part.move(values, block) for part, block in made.blocks(x)])
        noise = [jnp.asarray(sd, float) for part in parts for sd in part.noise(values)]
        # Outside of a trace, NumPyro would refuse a standard deviation of zero.
        return dist.Normal(mean, jnp.stack(noise), validate_args=False).to_event(1)

    def observe(theta, x, inputs):
        return made.observation_given(theta, made.predictor_weights(inputs) @ x, inputs)

    made = StructuralModel(
        prior=prior,
        initial=initial,
        transition=transition,
        observation=observe,
        name=repr(components) if name is None else name,
        example_inputs=_example(reads),
        components=components,
        kind=observation,
        known=known,
        reads=reads,
    )
    return made


def _is_one_array(reads: Mapping[str, tuple[int, ...]]) -> bool:
    """Tell whether the inputs are an array and not a dict: the covariates of one regression, and nothing else."""
    return len(reads) == 1 and all(reads.values())


def _example(reads: Mapping[str, tuple[int, ...]]) -> Inputs:
    ones = {name: np.ones(shape) if shape else 1.0 for name, shape in sorted(reads.items())}
    return next(iter(ones.values())) if _is_one_array(reads) else ones or None


def _named(reads: Mapping[str, tuple[int, ...]], inputs: Inputs) -> Inputs:
    if not reads:
        return inputs
    is_bare = _is_one_array(reads) and inputs is not None and not isinstance(inputs, Mapping)
    named: Any = dict.fromkeys(reads, inputs) if is_bare else inputs
    found = {name: jnp.shape(one) for name, one in named.items()} if isinstance(named, Mapping) else None
    if found != reads:
        sizes = (f'"{name}"' + (f" with {shape[0]} numbers" if shape else "") for name, shape in reads.items())
        form = "an array" if _is_one_array(reads) else "a dict with these names"
        raise DataError(
            f"the model reads {' and '.join(sizes)} at each step, got inputs {describe(inputs)}. Pass {form}, with one "
            "row for each step to run and predict."
        )
    return named


def _normal(mean: Any, scales: list[Any]) -> Any:
    """Return the joint distribution of independent blocks, each with deviations or a factor of its covariance."""
    if all(one.ndim == 1 for one in scales):
        return dist.Normal(mean, jnp.concatenate(scales)).to_event(1)
    factors = [jnp.diag(one) if one.ndim == 1 else one for one in scales]
    return dist.MultivariateNormal(mean, scale_tril=block_diag(*factors))


def _require_scale_and_center(components: Components, scale: Any, center: Any) -> None:
    if not is_number(scale) or not 0 < float(scale) < math.inf:
        raise ArgumentError(
            f"scale must be a positive number, got {kind_of(scale)}. Pass the standard deviation of some data."
        )
    if not is_number(center) or not math.isfinite(float(center)):
        raise ArgumentError(f"center must be a number, got {kind_of(center)}. Pass the mean of some data.")
    if center != 0 and not any(part.has_level for part in components.parts):
        raise ModelError(
            f"a level starts at center={center:g}, but no component has a level. Add st.fixed_intercept() or "
            "st.local_level(), or leave center out."
        )
