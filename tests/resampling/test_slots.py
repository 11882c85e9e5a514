"""The fixed-point axis of slots, against Python's whole numbers, which never round."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paramfilter.resampling.slots import Slots, cumulative, ends_of_pieces

PARTS_PER_SLOT = 2**32
ends_of = jax.jit(ends_of_pieces)

WEIGHTS = {
    "equal": lambda n: jnp.zeros(n),
    "even": lambda n: 1e-3 * jax.random.normal(jax.random.key(1), (n,)),
    "uneven": lambda n: 3.0 * jax.random.normal(jax.random.key(2), (n,)),
    "one against all": lambda n: 30.0 * jax.random.normal(jax.random.key(3), (n,)),
}


def as_integers(slots: Slots) -> list[int]:
    """Positions in units of 2^-32 slot."""
    return [
        whole * PARTS_PER_SLOT + part for whole, part in zip(slots.whole.tolist(), slots.part.tolist(), strict=True)
    ]


def pieces_of(log_weights) -> list[int]:
    """Lengths in the same units."""
    ends = as_integers(ends_of(log_weights))
    return [end - start for start, end in itertools.pairwise([0, *ends])]


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("num_particles", [1, 2, 1_000])
def test_pieces_fill_the_axis_exactly(num_particles, weights):
    pieces = pieces_of(weights(num_particles))
    assert min(pieces) >= 0
    assert sum(pieces) == num_particles * PARTS_PER_SLOT


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_pieces_are_added_up_exactly(weights):
    pieces = pieces_of(weights(1_000))
    whole, part = zip(*[divmod(piece, PARTS_PER_SLOT) for piece in pieces], strict=True)
    ends = cumulative(Slots(jnp.array(whole, jnp.int32), jnp.array(part, jnp.uint32)))
    assert as_integers(ends) == list(itertools.accumulate(pieces))


def test_pieces_are_those_of_the_weights_in_float64(float64):
    log_weights = WEIGHTS["uneven"](1_000)
    weights = np.exp(np.asarray(log_weights))
    expected = len(weights) * weights / weights.sum()
    # Each piece is cut to 2^-32 = 2.3e-10, and the heaviest takes what was cut from the thousand.
    pieces = np.array(pieces_of(log_weights)) / PARTS_PER_SLOT
    np.testing.assert_allclose(pieces, expected, atol=3e-7)


def test_ends_do_not_drift_in_float32():
    num_particles = 2**22 + 1
    log_weights = WEIGHTS["uneven"](num_particles)
    ends = ends_of(log_weights)
    assert (int(ends.whole[-1]), int(ends.part[-1])) == (num_particles, 0)
    weights = np.exp(np.asarray(log_weights, np.float64))
    expected = num_particles * np.cumsum(weights) / weights.sum()
    computed = np.asarray(ends.whole, np.float64) + np.asarray(ends.part, np.float64) / PARTS_PER_SLOT
    # What is left is the rounding of single float32 weights, a random walk. The sum of all of them is off
    # by 0.1 slots or so, and a running sum of floats by whole slots.
    assert np.abs(computed - expected).max() < 1e-2
