"""Take a store to another model or filter: each old posterior makes a new state, at the same place in the log.

A function of the user makes the new state of a series from the old one. `posterior_as_prior` is such a function: the
old posterior of the parameters becomes the prior of the series under the new model. What the function returns must be a
state of the new filter; anything else is refused, and nothing is written.

The old store stays as it is. Let only one of the two be used.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.errors import DataError, ModelError
from paramfilter.filters import Filter
from paramfilter.nodes import NodeFilter
from paramfilter.nodes.proposals import Normal
from paramfilter_streams.ordering import Ledger
from paramfilter_streams.posteriors import sequence_of
from paramfilter_streams.records import Commit
from paramfilter_streams.residents import FleetResidents
from paramfilter_streams.store import Store

__all__ = ["Series", "migrate", "posterior_as_prior"]

NUM_DRAWS = 1000
"""Draws of an old posterior that a Gaussian is fitted to."""

ROWS_AT_A_TIME = 256
"""Series whose new states are in memory at once."""


@dataclass(frozen=True)
class Series:
    """One series on its way to another filter.

    Attributes:
        name: Its name.
        num_steps: How many steps it has taken.
        old_filter: The filter that it had.
        old_state: Its state there.
        new_filter: The filter that it gets.
        key: A random key of its own.
    """

    name: str
    num_steps: int
    old_filter: Filter
    old_state: Any
    new_filter: Filter
    key: Any

    @cached_property
    def posterior(self) -> Any:
        """What was learned, as `filter.posterior` returns it."""
        return self.old_filter.posterior(self.old_state)

    @cached_property
    def start(self) -> Any:
        """The state of the new filter before any data."""
        return self.new_filter.init(self.key, self.new_filter.model.example_inputs)


Function = Callable[[Series], Any]
"""Makes the new state of a series; None starts it from the new prior."""


def posterior_as_prior(series: Series) -> Any:
    """Start a series with its old posterior as its prior: a Gaussian in the unconstrained coordinates.

    Parameters that only the new model has keep its prior. The state starts from the `initial` of the new model. The new
    filter must be a node filter; particle filters have one prior for all series, so write a function of your own.
    """
    filter = series.new_filter
    if not isinstance(filter, NodeFilter):
        raise ModelError(
            "posterior_as_prior needs a node filter as the new filter; for other filters give a function that returns "
            "a state."
        )
    parameters = filter.model.parameters
    z = jnp.asarray(parameters.prior_draws[:NUM_DRAWS], float)
    theta = dict(parameters.constrain_all(z))
    learned = series.posterior.sample(jax.random.fold_in(series.key, series.num_steps), len(z))
    common = learned.keys() & theta.keys()
    if not common:
        raise ModelError(f"the models have no parameter in common: {sorted(learned)} and {sorted(theta)}.")
    theta |= {name: jnp.asarray(learned[name]) for name in common}
    z = np.asarray(jax.jit(jax.vmap(parameters.unconstrain))(theta), float)
    if not np.all(np.isfinite(z)):
        raise DataError(f"draws of {series.name!r} are outside the support of the new prior; give another function.")
    try:
        scale = np.linalg.cholesky(np.atleast_2d(np.cov(z, rowvar=False)))
    except np.linalg.LinAlgError as error:
        raise DataError(
            f"draws from the posterior of {series.name!r} have no spread in some direction: perhaps all particles come "
            "from one. Give a function that widens it."
        ) from error
    precision = jnp.result_type(float)
    prior = Normal(np.mean(z, axis=0).astype(precision), scale.astype(precision))
    return filter.init(series.key, filter.model.example_inputs, prior=prior)


def migrate(
    source: str | os.PathLike,
    target: str | os.PathLike,
    old: FleetResidents,
    new: FleetResidents,
    function: Function = posterior_as_prior,
) -> int:
    """Make a store for another filter from one whose worker was stopped.

    Offsets, counts, sequence numbers, events that wait and the quarantine stay. Posteriors stay if the new filter
    reports the same figures.

    Args:
        source: Directory of the store; no worker may be using it.
        target: Directory of the new store.
        old: The filter and seed of the source.
        new: The filter and seed that the new worker will have.
        function: Makes the new state of a series.

    Returns:
        How many series the new store has.

    Raises:
        DataError: The function returned something else than a state of the new filter.
    """
    with closing(Store(source, old.identity, walk_first=False)) as before:
        partitions = before.partitions()
        moving = sorted(name for name, one in partitions.items() if one.leaving is not None)
        if moving:
            raise DataError(f"{moving[0]!r} is leaving the store at {source}; end that move first.")
        with closing(Store(target, new.identity, keep=before.keep, walk_first=False)) as after:
            if after.partitions():
                raise DataError(f"the store at {target} has been used; give a directory that is not there.")
            names = before.series()
            kept = names if old.columns == new.columns else ()
            posteriors = ((name, sequence_of(one), one) for name in kept for one in before.posteriors(name))
            rows = _migrated(before, old, new, function)
            after.commit(Commit(rows, partitions, posteriors, before.quarantined()))
            return len(names)


def _migrated(
    before: Store, old: FleetResidents, new: FleetResidents, function: Function
) -> Iterator[tuple[str, Ledger, bytes]]:
    for some in itertools.batched(before.rows(), ROWS_AT_A_TIME):
        states = []
        for name, ledger, row in some:
            if row:
                series = Series(name, ledger.sequence, old.filter, old.unpacked(row), new.filter, new.key_of(name))
                state = function(series)
                states.append((name, ledger, b"" if state is None else _row(new, name, state)))
            else:  # an operator has reset it, so it starts from the prior
                states.append((name, ledger, b""))
        yield from states


def _row(new: FleetResidents, name: str, state: Any) -> bytes:
    """Return a state as a row, or refuse what is none."""
    difference = new.difference(state)
    if difference:
        raise DataError(
            f"the function made no state of the new filter for {name!r}: {difference}. Return what "
            "series.new_filter.init returns, or series.start with other values."
        )
    return new.packed(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state))[0].tobytes()
