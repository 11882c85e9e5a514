"""Filters whose particles are values of theta, the nodes: each holds a filter for the state, given its theta."""

from paramfilter.nodes.choosing import choose_inner, usual_nodes
from paramfilter.nodes.filter import NodeFilter
from paramfilter.nodes.inner import (
    AssumedDensity,
    Counts,
    FiniteState,
    Guided,
    InnerFilter,
    Kalman,
    LinearPredictor,
    Particles,
)
from paramfilter.nodes.posterior import NodePosterior
from paramfilter.nodes.state import NodeInfo, NodeState

__all__ = [
    "AssumedDensity",
    "Counts",
    "FiniteState",
    "Guided",
    "InnerFilter",
    "Kalman",
    "LinearPredictor",
    "NodeFilter",
    "NodeInfo",
    "NodePosterior",
    "NodeState",
    "Particles",
    "choose_inner",
    "usual_nodes",
]
