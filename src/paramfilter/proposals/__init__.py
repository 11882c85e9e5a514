"""How particles move: draw the next state, and weigh it by what the draw left out."""

from paramfilter.proposals.base import BoundProposal, Move, Proposal
from paramfilter.proposals.bootstrap import Bootstrap
from paramfilter.proposals.gaussian_product import GaussianProduct
from paramfilter.proposals.guided import Guided, LookAhead
from paramfilter.proposals.laplace_product import is_heavy_tailed

__all__ = [
    "Bootstrap",
    "BoundProposal",
    "GaussianProduct",
    "Guided",
    "LookAhead",
    "Move",
    "Proposal",
    "is_heavy_tailed",
]
