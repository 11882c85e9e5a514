"""What several tests stand on, and some benchmarks at a larger size."""
