"""Draw `_static/ribbons.png`, the picture of the landing page and of README: `python docs/draw_ribbons.py`.

Two parameters of a noisy autoregression are learned from 400 observations. The ribbons are quantiles of the filter's
posterior after each fifth observation, and the bars at the end are the exact posterior.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf

PICTURE = Path(__file__).parent / "_static" / "ribbons.png"
TRUTH = {"phi": 0.8, "q": 0.5}
LABELS = {"phi": "decay rate φ", "q": "noise variance q"}
BLUE, ORANGE, BLACK = "#0072B2", "#D55E00", "black"
NUM_STEPS, STRIDE = 400, 5
LEVELS = [0.05, 0.25, 0.5, 0.75, 0.95]

model = pf.StateSpaceModel(
    prior={"phi": dist.Normal(0.5, 0.3), "q": dist.InverseGamma(3.0, 2.0)},
    initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
    transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, jnp.sqrt(theta["q"])),
    observation=lambda theta, x, inputs: dist.Normal(x, 0.7),
)


def quantiles_over_time(ys: jax.Array) -> tuple[list[int], dict[str, np.ndarray]]:
    """Return times, and quantiles with axes (time, level) of each parameter."""
    filter = pf.auto_filter(model)
    print(filter.choice)
    state = filter.init(jax.random.key(1))
    times, found = [0], [filter.posterior(state).quantile(LEVELS)]
    for start in range(0, NUM_STEPS, STRIDE):
        state, _ = pf.run(filter, state, ys[start : start + STRIDE], progress=False)
        times.append(start + STRIDE)
        found.append(filter.posterior(state).quantile(LEVELS))
    return times, {name: np.stack([one[name] for one in found]) for name in TRUTH}


def draw() -> None:
    """Run the filter and write the picture."""
    _, ys = pf.simulate(jax.random.key(0), model, TRUTH, NUM_STEPS)
    times, quantiles = quantiles_over_time(ys)
    exact = pf.references.kalman_grid(model, ys)
    plt.rcParams.update({"font.size": 12, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(2, 1, figsize=(7, 4.2), sharex=True, layout="constrained")
    for axis, name in zip(axes, TRUTH, strict=True):
        low, lower, middle, upper, high = quantiles[name].T
        axis.fill_between(times, low, high, color=BLUE, alpha=0.2, linewidth=0, label="90 % interval")
        axis.fill_between(times, lower, upper, color=BLUE, alpha=0.35, linewidth=0, label="50 % interval")
        axis.plot(times, middle, color=BLUE, linewidth=1.5, label="median")
        axis.axhline(TRUTH[name], color=BLACK, linewidth=1, linestyle="--", label="true value")
        half = 1.645 * exact.sd()[name]
        bar = {"fmt": "o", "color": ORANGE, "markersize": 4, "capsize": 4, "label": "exact posterior"}
        axis.errorbar(NUM_STEPS + 8, exact.mean()[name], half, **bar)
        axis.set_ylabel(LABELS[name])
    axes[0].legend(loc="lower right", ncols=3, fontsize=11, frameon=False, columnspacing=1.2, handlelength=1.5)
    axes[1].set_ylim(0, 2)
    axes[1].set_xlabel("observations seen")
    axes[1].set_xlim(-4, NUM_STEPS + 14)
    figure.savefig(PICTURE, dpi=200)


if __name__ == "__main__":
    draw()
