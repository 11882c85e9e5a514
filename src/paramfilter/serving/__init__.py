"""A running fleet over HTTP."""
