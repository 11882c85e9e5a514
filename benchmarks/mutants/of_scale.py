"""Mistakes in what is done for many series and on many devices."""

from benchmarks.mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        "what fills up a batch of a fleet is written to its last series",
        "fleet/blocks.py",
        'leaf.at[rows].set(part, mode="drop")',
        'leaf.at[rows].set(part, mode="clip")',
        ("test_fleet.py::test_a_sparse_update_is_a_masked_step_and_compiles_once_a_bucket",),
    ),
    Mutant(
        "a series goes on after its last observation",
        "fleet/blocks.py",
        "jax.lax.fori_loop(0, length, take_in, state)",
        "jax.lax.fori_loop(0, length + 1, take_in, state)",
        ("test_fleet.py::test_many_observations_in_one_call_are_what_step_by_step_gives_to_the_last_bit",),
    ),
    Mutant(
        "a fleet that is read back forgets its key",
        "fleet/fleet.py",
        'rows_of(ids), found["key"])',
        "rows_of(ids), key)",
        ("test_fleet.py::test_a_saved_fleet_goes_on_as_if_it_had_never_stopped",),
    ),
    Mutant(
        "the rows of a file are taken in the order they come",
        "backfilling/worker.py",
        "np.lexsort((times, series))",
        'np.argsort(series, kind="stable")',
        ("test_backfill.py::test_a_row_is_what_the_series_own_fleet_gives_to_the_last_bit",),
    ),
    Mutant(
        "what is done is done again",
        "backfilling/files.py",
        "    return True",
        "    return False",
        ("test_backfill.py::test_what_is_done_is_not_done_again_and_what_is_lost_comes_back_the_same",),
    ),
    Mutant(
        "the evidence of a large filter grows with the number of devices",
        "large.py",
        " - jnp.log(num_devices)",
        "",
        ("test_large.py",),
    ),
)
