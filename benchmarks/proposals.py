"""What a proposal that sees the data, resampling when needed, and islands are worth: `python -m benchmarks.proposals`.

AR(1) with an unknown coefficient (prior N(0, 1), process noise 1), exact conjugate beliefs, against the Kalman filter
with quadrature: so all error is Monte Carlo. N = 1000, 12 runs on each of 3 data sets, errors in posterior sds. Time is
CPU time of a step, over that of the bootstrap in the same run. Results are kept in `results/proposals.json`.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from paramfilter.proposals import Bootstrap, Guided, LookAhead, Proposal
from paramfilter.resampling import Resampling, Systematic, WhenEssBelow

RESULTS = Path(__file__).parent / "results" / "proposals.json"
NUM_PARTICLES = 1000
NUM_RUNS = 12
DATA_SETS = (0, 1, 2)
WHEN_NEEDED = WhenEssBelow(0.5, Systematic())


@dataclass(frozen=True)
class Variant:
    """Parts of a filter."""

    proposal: Proposal
    resampling: Resampling
    num_islands: int


VARIANTS = tuple(
    Variant(proposal, resampling, num_islands)
    for proposal in (Bootstrap(), Guided(), LookAhead())
    for resampling in (Systematic(), WHEN_NEEDED)
    for num_islands in ((1, 4, 20) if resampling == Systematic() else (1,))
)


def compare(noise: float, marks: tuple[int, ...]) -> list[dict]:
    """Judge all variants at some times, for one standard deviation of the observation noise."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=1.0, r=noise**2)
    data, exact = {}, {}
    for seed in DATA_SETS:
        data[seed] = pf.simulate(jax.random.key(seed), model, {"phi": 0.8}, marks[-1])[1]
        for mark in marks:
            found = pf.references.kalman_grid(model, data[seed][:mark])
            exact[seed, mark] = float(found.mean()["phi"]), float(found.sd()["phi"])
    rows = []
    for variant in VARIANTS:
        rows.append(_judge(model, variant, data, exact, marks) | {"observation_sd": noise})
        rows[-1]["time_over_bootstrap"] = round(rows[-1]["microseconds"] / rows[0]["microseconds"], 2)
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _judge(model, variant: Variant, data: dict, exact: dict, marks: tuple[int, ...]) -> dict:
    filter = pf.ParticleFilter(
        model, NUM_PARTICLES, pf.beliefs.Conjugate(), variant.proposal, variant.resampling, variant.num_islands
    )

    @jax.jit
    def go_on(states, ys):
        def one(state):
            def turn(index, carry):
                state, ess = carry
                state, info = filter.step(state, ys[index])
                return state, ess + info.ess / len(ys)

            return jax.lax.fori_loop(0, len(ys), turn, (state, 0.0))

        return jax.vmap(one)(states)

    summarise = jax.jit(jax.vmap(lambda s: (filter.posterior(s).mean()["phi"], filter.posterior(s).sd()["phi"])))
    rhat = jax.jit(jax.vmap(lambda s: filter.step(s, np.nan)[1].rhat[0]))
    errors, ratios, rhats = ({mark: [] for mark in marks} for _ in range(3))
    effective, seconds = [], []
    for seed in DATA_SETS:
        states = jax.vmap(filter.init)(jax.random.split(jax.random.key(50 + seed), NUM_RUNS))
        start = 0
        for mark in marks:
            began = time.process_time()
            states, ess = jax.block_until_ready(go_on(states, data[seed][start:mark]))
            if seed > 0:  # the first data set pays for the compile
                seconds.append((time.process_time() - began) / (mark - start) / NUM_RUNS)
            effective += np.asarray(ess).tolist()
            mean, sd = summarise(states)
            right, width = exact[seed, mark]
            errors[mark] += ((np.asarray(mean) - right) / width).tolist()
            ratios[mark] += (np.asarray(sd) / width).tolist()
            rhats[mark] += np.asarray(rhat(states)).tolist()
            start = mark
    return {
        "proposal": repr(variant.proposal),
        "resampling": repr(variant.resampling),
        "islands": variant.num_islands,
        "times": list(marks),
        "rms_error": [round(float(np.sqrt(np.mean(np.square(errors[mark])))), 3) for mark in marks],
        "median_sd_ratio": [round(float(np.median(ratios[mark])), 3) for mark in marks],
        "median_rhat": [round(float(np.median(rhats[mark])), 3) for mark in marks],
        "ess_share": round(float(np.mean(effective)) / NUM_PARTICLES, 3),
        "microseconds": round(1e6 * float(np.median(seconds)), 1),
    }


def main() -> None:
    noises = [float(word) for word in sys.argv[1:]] or [1.0]
    rows = [row for noise in noises for row in compare(noise, (100, 300, 1000, 3000, 10_000))]
    heading = {"particles": NUM_PARTICLES, "runs": NUM_RUNS * len(DATA_SETS), "precision": "float32"}
    RESULTS.write_text(json.dumps(heading | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
