"""The paper's family: particles that fix a state and hold a belief about theta.

| belief | filter | where |
|---|---|---|
| `PointMass` | SIR on (x, theta) | Algorithm 1 |
| `ShrinkingKernel` | Liu and West | Section 2.2 |
| `Conjugate` | Storvik | Algorithm 2, Appendix A |
| `TaylorOfMean`, `TaylorOfLogDensity` | the extended parameter filter | Algorithm 3, Section 4 |
| `Grid` with `AncestorMixing` | the same loop, right where a Taylor series is not | not in the paper |
"""

from paramfilter.particles.belief import Belief, BoundBelief, Draw
from paramfilter.particles.conjugate import Conjugate
from paramfilter.particles.filter import ParticleFilter as ParticleFilter  # public as pf.ParticleFilter
from paramfilter.particles.grid import Grid
from paramfilter.particles.liu_west import ShrinkingKernel
from paramfilter.particles.mixing import AncestorMixing
from paramfilter.particles.point_mass import PointMass
from paramfilter.particles.posterior import ParticlePosterior
from paramfilter.particles.printed import printed_cauchy, printed_star
from paramfilter.particles.state import ParticleInfo, ParticleState
from paramfilter.particles.taylor import TaylorOfLogDensity, TaylorOfMean

__all__ = [
    "AncestorMixing",
    "Belief",
    "BoundBelief",
    "Conjugate",
    "Draw",
    "Grid",
    "ParticleInfo",
    "ParticlePosterior",
    "ParticleState",
    "PointMass",
    "ShrinkingKernel",
    "TaylorOfLogDensity",
    "TaylorOfMean",
    "printed_cauchy",
    "printed_star",
]
