"""The public names of the package, and where each comes from."""

from .migrating import Series as Series
from .migrating import posterior_as_prior as posterior_as_prior
from .ordering import Fate as Fate
from .ordering import Rules as Rules
from .rows import group_of as group_of
from .rows import merged as merged
from .table import StateTable as StateTable
from .versions import Versions as Versions

__all__: list[str]
