"""Mistakes in the loop, its islands, its figures of health, the posterior, and in running and simulating."""

from benchmarks.mutants.mutant import Mutant

LOOP = "filters/test_loop.py"
ISLANDS = "filters/test_islands.py"
AHEAD = "proposals/test_guided.py::test_evidence_and_posterior_agree_with_the_kalman_filter"

MUTANTS = (
    Mutant(
        "statistics are not resampled with their particles",
        "filters/loop.py",
        "(before.x, before.z, before.statistics))",
        "(before.x, before.z, before.statistics))\n    statistics = before.statistics",
        (f"{LOOP}::test_a_particle_keeps_its_statistic_when_it_is_resampled",),
    ),
    Mutant(
        "the pair that is absorbed begins at the state before resampling",
        "filters/loop.py",
        "jax.vmap(absorb)(ready.statistics, ready.x, new_x)",
        "jax.vmap(absorb)(ready.statistics, before.x, new_x)",
        (f"{LOOP}::test_a_particle_keeps_its_statistic_when_it_is_resampled",),
    ),
    Mutant(
        "every step uses the same random numbers",
        "filters/loop.py",
        "key_step = jax.random.fold_in(state.key, state.time)",
        "key_step = state.key",
        (f"{LOOP}::test_random_numbers_are_used_once",),
    ),
    Mutant(
        "theta and the move are drawn with one key",
        "filters/loop.py",
        "moves = _move(filter, key_move, ready",
        "moves = _move(filter, key_theta, ready",
        (f"{LOOP}::test_random_numbers_are_used_once",),
    ),
    Mutant(
        "what the initial state says of theta is forgotten",
        "filters/loop.py",
        "return x, belief.absorb_initial(shared, belief.start(), x, inputs)",
        "return x, belief.start()",
        (f"{LOOP}::test_the_initial_state_teaches_its_particle",),
    ),
    Mutant(
        "weights are not carried over a step without resampling",
        "filters/loop.py",
        "log_weights = ready.log_weights + jnp.where(is_usable, moves.log_weight, -jnp.inf)",
        "log_weights = jnp.where(is_usable, moves.log_weight, -jnp.inf) - jnp.log(filter.num_particles)",
        (f"{LOOP}::test_weights_multiply_until_particles_are_resampled",),
    ),
    Mutant(
        "the effective sample size is that of the weights before y was seen",
        "filters/loop.py",
        "effective_sample_size(kept.log_weights)",
        "effective_sample_size(ready.log_weights)",
        (f"{LOOP}::test_weights_multiply_until_particles_are_resampled",),
    ),
    Mutant(
        "the look-ahead weight is not divided out",
        "filters/loop.py",
        "shares - promise[resampled.ancestors], 0.0)",
        "shares, 0.0)",
        (f"{AHEAD}[ahead]",),
    ),
    Mutant(
        "the look-ahead weight of another particle is divided out",
        "filters/loop.py",
        "shares - promise[resampled.ancestors], 0.0)",
        "shares - promise, 0.0)",
        (f"{AHEAD}[ahead]",),
    ),
    Mutant(
        "the evidence of the pool is the mean of the islands' logarithms",
        "filters/loop.py",
        "log_total = jax.nn.logsumexp(island_totals)",
        "log_total = jnp.mean(island_totals)",
        (f"{ISLANDS}::test_shares_stay_equal_and_evidence_is_the_pool",),
    ),
    Mutant(
        "a step that failed is tried again with the same random numbers",
        "filters/loop.py",
        "time=jnp.where(is_refused, state.time, state.time + 1)",
        "time=jnp.where(is_accepted, state.time + 1, state.time)",
        ("filters/test_bad_input.py::test_a_step_that_no_particle_survives_is_rolled_back",),
    ),
    Mutant(
        "all islands copy the particles of the first",
        "filters/islands.py",
        "ancestors=jnp.ravel(each.ancestors + firsts[:, None])",
        "ancestors=jnp.ravel(each.ancestors)",
        (f"{ISLANDS}::test_ancestors_stay_on_their_island",),
    ),
    Mutant(
        "islands are weighed by their evidence",
        "filters/islands.py",
        "return jnp.ravel(each) - jnp.log(jnp.asarray(num_islands, log_weights.dtype)), log_totals",
        "return normalise(log_weights)[0], log_totals",
        (f"{ISLANDS}::test_ancestors_stay_on_their_island",),
    ),
    Mutant(
        "R-hat counts the chance between islands as disagreement",
        "filters/islands.py",
        "jnp.var(means, axis=0, ddof=1) - chance, 0.0)",
        "jnp.var(means, axis=0, ddof=1), 0.0)",
        (f"{ISLANDS}::test_what_chance_puts_between_islands_is_taken_off",),
    ),
    Mutant(
        "the lineage is not followed behind the last mark",
        "filters/health.py",
        "self.recent[ancestors], self.older[ancestors]",
        "self.recent[ancestors], self.older",
        (f"{ISLANDS}::test_lineage_counts_ancestors_at_marks",),
    ),
    Mutant(
        "forecasts observe the state before it has moved",
        "filters/health.py",
        "model.sample_observation(key_observe, theta, x_next, inputs)",
        "model.sample_observation(key_observe, theta, one_x, inputs)",
        (f"{ISLANDS}::test_ranks_of_a_right_model_are_uniform[real]",),
    ),
    Mutant(
        "the posterior variance leaves out the variance between particles",
        "filters/posterior.py",
        "variance[name] = within + between",
        "variance[name] = within",
        ("filters/test_posterior.py::test_variance_is_that_within_particles_and_between_them",),
    ),
    Mutant(
        "the Jacobian enters the posterior density with the wrong sign",
        "filters/posterior.py",
        "jax.nn.logsumexp(terms) - parameters.log_volume(z)",
        "jax.nn.logsumexp(terms) + parameters.log_volume(z)",
        ("filters/test_posterior.py::test_density_before_data_is_the_prior_on_the_natural_scale",),
    ),
    Mutant(
        "islands are made of too few particles",
        "filters/presets.py",
        "num_particles >= DEFAULT_ISLANDS * FEWEST_ON_AN_ISLAND",
        "num_particles >= FEWEST_ON_AN_ISLAND",
        ("filters/test_presets.py",),
    ),
    Mutant(
        "inputs reach the model one step late",
        "running.py",
        "state, info = filter.step(state, y, inputs_now)",
        "state, info = filter.step(state, y, jax.tree.map(lambda leaf: leaf[jnp.maximum(index - 1, 0)], inputs))",
        ("test_running.py::test_inputs_reach_the_model_at_their_own_step",),
    ),
    Mutant(
        "every step of a forecast has the same noise",
        "running.py",
        "index, inputs_now = step_input",
        "index, inputs_now = jnp.zeros_like(step_input[0]), step_input[1]",
        ("test_running.py::test_forecasts_widen_as_the_model_says",),
    ),
    Mutant(
        "simulated observations share the noise of the move",
        "model.py",
        "key_move, key_observe = jax.random.split(step_key)",
        "key_move = key_observe = step_key",
        ("test_model.py",),
    ),
)
