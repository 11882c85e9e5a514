"""SIN as in the paper, against a grid reference: `python -m experiments.sin_paper`.

N = 1000, order 7, prior N(0, 0.2^2), truth 0.7, T = 1000, the paper's own loop (bootstrap, multinomial resampling at
every step); and the plain particle filter with the same N, which collapses.
"""

from __future__ import annotations

import jax
import numpy as np

import paramfilter as pf
from experiments.judging import Score, judge, last_state, score, write_results
from paramfilter.models.sin import TRUTH

PAPER_LOOP = {"proposal": pf.proposals.Bootstrap(), "resampling": pf.resampling.Multinomial()}


def make_filters(model: pf.StateSpaceModel, num_particles: int) -> dict[str, pf.ParticleFilter]:
    """Return the paper's filter and the one it is compared with."""
    belief = pf.beliefs.TaylorOfMean(order=7, center=0.0)
    return {
        "extended parameter filter": pf.ParticleFilter(model, num_particles, belief, **PAPER_LOOP),
        "sir": pf.sir_filter(model, num_particles, **PAPER_LOOP),
    }


def sin_paper(
    num_data_sets: int = 10, num_particles: int = 1000, num_steps: int = 1000
) -> tuple[dict[str, Score], dict[str, list[float]]]:
    """Score both filters on data from the truth; also return the reference's means and accuracies."""
    model = pf.models.sin()
    filters = make_filters(model, num_particles)
    verdicts = {name: [] for name in filters}
    references = {"mean": [], "sd": [], "change of mean when all spacings are halved, in sds": []}
    for seed in range(num_data_sets):
        ys = pf.simulate(jax.random.key(seed), model, TRUTH, num_steps)[1]
        reference = pf.references.grid_posterior(model, ys, check=seed == 0)
        references["mean"].append(float(reference.mean()["theta"]))
        references["sd"].append(float(reference.sd()["theta"]))
        if reference.accuracy is not None:
            references["change of mean when all spacings are halved, in sds"].append(float(reference.accuracy.mean))
        for name, filter in filters.items():
            state = last_state(filter, filter.init(jax.random.key(100 + seed)), ys)
            verdicts[name].append(judge(filter, state, reference))
            print(seed, name, verdicts[name][-1], pf.explain(state.outcome), flush=True)
    return {name: score(found) for name, found in verdicts.items()}, references


def main() -> None:
    scores, references = sin_paper()
    for name, found in scores.items():
        print(name, found)
    print("reference means", np.round(references["mean"], 3))
    write_results("sin_paper", {"scores": scores, "references": references})


if __name__ == "__main__":
    main()
