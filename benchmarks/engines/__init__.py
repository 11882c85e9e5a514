"""What the engines cost and survive, on real servers: run with the environment of `tests/servers`."""
