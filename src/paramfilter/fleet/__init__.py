"""One filter for each of many series."""

from paramfilter.fleet.fleet import Fleet
from paramfilter.fleet.forecast import FleetForecast
from paramfilter.fleet.population import Population
from paramfilter.fleet.scores import FleetScores
from paramfilter.fleet.state import FleetState, Ids

__all__ = ["Fleet", "FleetForecast", "FleetScores", "FleetState", "Ids", "Population"]
