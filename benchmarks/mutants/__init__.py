"""Plausible mistakes, put into the library one at a time: does a test notice? `python -m benchmarks.mutants`."""
