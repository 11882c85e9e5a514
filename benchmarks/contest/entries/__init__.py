"""One file an entry: a library, the environment it needs, its algorithms and the sizes at which they are run."""
