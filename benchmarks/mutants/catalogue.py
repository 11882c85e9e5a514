"""All mutants, in the order of their numbers."""

from benchmarks.mutants import of_beliefs, of_draws, of_filters, of_foundations, of_scale

CATALOGUE = (*of_filters.MUTANTS, *of_beliefs.MUTANTS, *of_draws.MUTANTS, *of_foundations.MUTANTS, *of_scale.MUTANTS)
