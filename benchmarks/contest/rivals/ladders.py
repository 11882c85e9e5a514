"""The sizes at which each rival is run, a factor of about three in cost apart, and the reasons for its settings.

Cost is what was seen, not a count of particles: `particles` spends about 0.5 ms a step of one filter, whatever its size
up to some thousand particles, so a larger inner filter is nearly free there, and its ladder grows in chains or thetas.
Inner filters grow along the ladder since the variance of a log likelihood grows with the length of the data: with few
inner particles neither SMC2 nor PMMH accepts a move on a long stream, and no number of thetas cures that.

| rival | setting | value | why |
|---|---|---|---|
| particles SMC2 | filter inside, resampling | bootstrap, systematic at half | default |
| | waste-free, chains of 10 | `num_theta` = 10 x resampled | default |
| | inner filter doubled below an acceptance of | 0.1 | its tutorial; the default never does |
| particles PMMH | random walk | adaptive, natural scale | default |
| | first guess of its covariance | the prior's | its docs call the default, the identity, a terrible choice at times |
| | discarded | the first tenth | its book's scripts |
| smcx Liu-West | selection | at every observation, moves with it | its warning; default from version 3 |
| | shrinkage | 0.95 | default |
| | look-ahead | center of the next state, or none (`_blind`) | the user's to write; both are run |
| smcx SMC2 | ESS threshold, moves | 0.5, one | default; it cannot grow its inner filters |
| smcs Storvik | ESS threshold, resampling | 0.5, systematic | default |
| pypomp PMCMC | random walk | `MVNRWAdaptive` on z from steps of a prior sd | its adaptive proposal with defaults |
| | resampling | always | default |
| | discarded | the first tenth | as for `particles`; it says nothing |
| pypomp IF2 | perturbations, cooling | 0.02 on z, geometric 0.5 | its examples |
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ladder:
    """The rungs of one algorithm, from cheap to dear.

    Args:
        library: Its environment, and the name of its program.
        algorithm: What the program calls it.
        rungs: Sizes.
        problems: The problems it is for; None is all.
        gives_sd: Whether it says how sure it is.
        evidence: Whether its log evidence is right.
    """

    library: str
    algorithm: str
    rungs: tuple[dict[str, int], ...]
    problems: tuple[str, ...] | None = None
    gives_sd: bool = True
    evidence: bool = False

    def takes(self, problem: str) -> bool:
        """Tell whether the algorithm is for a problem."""
        return self.problems is None or problem in self.problems


def nested(*sizes: tuple[int, int]) -> tuple[dict[str, int], ...]:
    """Return rungs of so many thetas with so many states each."""
    return tuple({"num_theta": num_theta, "num_x": num_x} for num_theta, num_x in sizes)


def chains(*sizes: tuple[int, int]) -> tuple[dict[str, int], ...]:
    """Return rungs of so many iterations with so many states each."""
    return tuple({"num_iterations": num_iterations, "num_x": num_x} for num_iterations, num_x in sizes)


def particles(*sizes: int) -> tuple[dict[str, int], ...]:
    """Return rungs of so many particles."""
    return tuple({"num_particles": size} for size in sizes)


NUMBERS_OF_PARTICLES = particles(100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000)

LADDERS = (
    Ladder("particles", "smc2", nested((20, 100), (40, 300), (100, 300), (200, 1000), (500, 1000)), evidence=True),
    Ladder("particles", "pmmh", chains((30, 300), (100, 300), (200, 1000), (500, 1000), (500, 3000), (1500, 3000))),
    Ladder("smcx", "liu_west", NUMBERS_OF_PARTICLES),
    Ladder("smcx", "liu_west_blind", NUMBERS_OF_PARTICLES),
    Ladder("smcx", "smc2", nested((30, 30), (100, 30), (100, 100), (100, 300), (300, 300), (300, 1000)), evidence=True),
    Ladder("smcs", "storvik", NUMBERS_OF_PARTICLES, problems=("ar1",)),
    Ladder("pypomp", "pmcmc", chains((100, 300), (300, 300), (300, 1000), (1000, 1000), (1000, 3000), (3000, 3000))),
    Ladder(
        "pypomp", "if2", chains((30, 100), (30, 300), (100, 300), (100, 1000), (100, 3000), (300, 3000)), gives_sd=False
    ),
)
