"""Each step is in the reservoir with the same probability."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

from paramfilter.beliefs.reservoir import reservoir_sample
from paramfilter.model import Transition

SIZE, NUM_STEPS, NUM_RUNS = 4, 16, 4000


def test_early_and_late_steps_are_kept_alike():
    @jax.jit
    @jax.vmap
    def kept(key):
        empty = jnp.full(SIZE, -1.0)

        def step(reservoir, time):
            now = jnp.full(2, time * 1.0)
            data = Transition(now, now, time * 1.0, None)
            return reservoir_sample(jax.random.fold_in(key, time), reservoir, data, jnp.zeros(2), time), None

        return jax.lax.scan(step, Transition(empty, empty, empty, None), jnp.arange(NUM_STEPS))[0].x

    times = np.asarray(kept(jax.random.split(jax.random.key(0), NUM_RUNS)))
    counts = np.bincount(times.astype(int).ravel(), minlength=NUM_STEPS)
    expected = NUM_RUNS * SIZE / NUM_STEPS
    # Counts of a sample without replacement vary less than multinomial ones, so the false-alarm rate is below 1e-9.
    assert stats.chi2(NUM_STEPS - 1).sf(np.sum((counts - expected) ** 2 / expected)) > 1e-9
