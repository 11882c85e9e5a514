"""Workers, servers and services for tests of streams, and what disturbs them."""
