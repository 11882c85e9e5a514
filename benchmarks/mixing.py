"""Ways to mix beliefs over ancestors, by the number of ancestors under which results are kept."""

from __future__ import annotations

import paramfilter as pf
from paramfilter.filters import AncestorMixing, Mixing, NoMixing, PairwiseMixing


def mixing_of(num_ancestors: int | None) -> Mixing | None:
    """Return paths for 1, pairs now and then for 2, and so many at each step for more."""
    if num_ancestors is None:
        return None
    return {1: NoMixing(), 2: PairwiseMixing()}.get(num_ancestors) or AncestorMixing(num_ancestors)


def num_ancestors(filter: pf.ParticleFilter) -> int:
    """Return the number of ancestors that a filter mixes beliefs over."""
    mixing = filter.bound_mixing
    if isinstance(mixing, AncestorMixing):
        return mixing.num_ancestors
    return 2 if isinstance(mixing, PairwiseMixing) else 1
