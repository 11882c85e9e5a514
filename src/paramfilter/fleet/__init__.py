"""One filter for each of many series."""

from paramfilter.fleet.fleet import Fleet
from paramfilter.fleet.state import FleetState, Ids

__all__ = ["Fleet", "FleetState", "Ids"]
