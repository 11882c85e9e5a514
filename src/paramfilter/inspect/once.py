"""What was found out about a model is kept with the model, found once, and gone with it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Concatenate

from paramfilter.model import StateSpaceModel

KEPT = "_found_by_inspection"


def once_per_model[**P, R](
    find: Callable[Concatenate[StateSpaceModel, P], R],
) -> Callable[Concatenate[StateSpaceModel, P], R]:
    """Make `find(model, ...)` look only once; its other arguments must be hashable."""

    @functools.wraps(find)
    def found(model: StateSpaceModel, *args: P.args, **kwargs: P.kwargs) -> R:
        kept: dict[Hashable, R] = model.__dict__.setdefault(KEPT, {})
        question = (find, args, tuple(kwargs.items()))
        if question not in kept:
            kept[question] = find(model, *args, **kwargs)
        return kept[question]

    return found
