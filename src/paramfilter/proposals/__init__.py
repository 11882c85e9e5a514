"""How particles move: draw the next state, and weigh it by what the draw left out."""

from paramfilter.proposals.base import BoundProposal, Move, Proposal
from paramfilter.proposals.bootstrap import Bootstrap
from paramfilter.proposals.crowd import CrowdMove, crowd_of
from paramfilter.proposals.gaussian_product import GaussianProduct
from paramfilter.proposals.guided import Guided, LookAhead
from paramfilter.proposals.laplace_product import is_heavy_tailed

__all__ = [
    "Bootstrap",
    "BoundProposal",
    "CrowdMove",
    "GaussianProduct",
    "Guided",
    "LookAhead",
    "Move",
    "Proposal",
    "crowd_of",
    "is_heavy_tailed",
]
