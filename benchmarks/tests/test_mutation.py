"""Mutants are made from the code as it is; `python -m benchmarks.mutation` runs them."""

import ast

import pytest
from benchmarks.mutation import ROOT, TESTS, mutants_of
from benchmarks.mutation_operators import mistakes_in

SOURCE = """
def draw(key, mean: Float[Array, "2 3"], size=4):
    if size < 1:
        raise ValueError(f"size is {size + 1}")
    key_noise, key_scale = jax.random.split(key)
    mean = jnp.sum(mean, axis=0)
    return jnp.where(size > 2, -mean, jax.random.normal(key_scale) * 0.5)
"""
EXPECTED = {
    ("constant", "4", "5"),
    ("statement dropped", "mean = jnp.sum(mean, axis=0)", "pass"),
    ("axis changed", "0", "-1"),
    ("constant", "0", "1"),
    (
        "arguments swapped",
        "jnp.where(size > 2, -mean, jax.random.normal(key_scale) * 0.5)",
        "jnp.where(size > 2, jax.random.normal(key_scale) * 0.5, -mean)",
    ),
    ("comparison flipped", "size > 2", "(size <= 2)"),
    ("constant", "2", "3"),
    ("sign dropped", "-mean", "(mean)"),
    ("arithmetic", "jax.random.normal(key_scale) * 0.5", "(jax.random.normal(key_scale) / 0.5)"),
    ("key reused", "key_scale", "key_noise"),
    ("constant", "0.5", "1.0"),
}


def test_all_kinds_of_mistakes_are_found_and_each_changes_the_code():
    found = list(mistakes_in(SOURCE))
    assert {(mistake.operator, mistake.before, mistake.after) for mistake in found} == EXPECTED
    assert all(ast.dump(ast.parse(mistake.mutated_source)) != ast.dump(ast.parse(SOURCE)) for mistake in found)


@pytest.mark.parametrize("file", TESTS)
def test_every_file_has_mutants_and_tests(file):
    sample = mutants_of(file, 3, seed=0)
    assert len(sample) == 3 and sample == mutants_of(file, 3, seed=0)
    assert all((ROOT / test).exists() for test in TESTS[file])
