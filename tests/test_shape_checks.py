"""While tests run, shapes in signatures are kept promises. Were the hook broken, nothing else would tell."""

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.numerics.weights import effective_sample_size


def test_a_wrong_number_of_axes_is_refused():
    with pytest.raises(TypeCheckError):
        effective_sample_size(jnp.zeros((2, 3)))


def test_a_wrong_kind_of_number_is_refused():
    with pytest.raises(TypeCheckError):
        effective_sample_size(jnp.zeros(3, int))


def test_trees_of_shapes_and_of_axes_can_still_be_built():
    start = jax.eval_shape(CompensatedSum.start, jnp.zeros(()))
    axes = jax.tree.map(lambda leaf: 0, start)
    assert axes == CompensatedSum(total=0, lost=0)
