"""How far out in its prior may a posterior lie before a bank misses it? `python -m benchmarks.far_out`.

AR(1) with an unknown coefficient whose prior is a normal law of sd 0.05, set so and so many sds below the truth. Banks
of Kalman filters after 1000 observations, 6 runs on each of 2 data sets, against the Kalman filter with quadrature.
"""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.tables import put_row

TRUTH, PRIOR_SD, NUM_STEPS = 0.8, 0.05, 1000
AWAY, SIZES = (0, 1, 2, 3, 4, 5), (300, 1000, 3000)
DATA_SETS, NUM_RUNS = (0, 1), 6


def main() -> None:
    for away in AWAY:
        model = pf.models.linear_gaussian(phi=dist.Normal(TRUTH - PRIOR_SD * away, PRIOR_SD))
        for num_values in SIZES:
            row = measure(model, num_values)
            print(json.dumps(row), flush=True)
            put_row("far_out", {"steps": NUM_STEPS, "prior_sd": PRIOR_SD}, row, ("prior_sds_out", "values"))


def measure(model: pf.StateSpaceModel, num_values: int) -> dict:
    """Return where the posterior lies, in prior sds, and how far off the banks are, in posterior sds."""
    filter, places, errors, ratios = pf.kalman_bank_filter(model, num_values), [], [], []

    @jax.jit
    def run(keys, ys):
        def one(key):
            state = jax.lax.fori_loop(0, len(ys), lambda t, state: filter.step(state, ys[t])[0], filter.init(key))
            return filter.posterior(state).mean()["phi"], filter.posterior(state).sd()["phi"], state.outcome

        return jax.lax.map(one, keys)

    flagged = []
    for seed in DATA_SETS:
        ys = pf.simulate(jax.random.key(seed), model, {"phi": TRUTH}, NUM_STEPS)[1]
        exact = pf.references.kalman_grid(model, ys)
        right, unit = float(exact.mean()["phi"]), float(exact.sd()["phi"])
        mean, sd, outcome = run(jax.random.split(jax.random.key(100 + seed), NUM_RUNS), ys)
        errors += ((np.asarray(mean) - right) / unit).tolist()
        ratios += (np.asarray(sd) / unit).tolist()
        flagged += np.asarray(jnp.bitwise_and(outcome, pf.Outcome.VALUES_FAR_OUT) > 0).tolist()
        places.append((right - float(model.parameters.prior_mean[0])) / PRIOR_SD)
    return {
        "prior_sds_out": round(float(np.mean(places)), 1),
        "values": num_values,
        "rms_error": round(float(np.sqrt(np.mean(np.square(errors)))), 3),
        "mean_error": round(float(np.mean(errors)), 3),
        "median_sd_ratio": round(float(np.median(ratios)), 3),
        "share_flagged": float(np.mean(flagged)),
    }


if __name__ == "__main__":
    main()
