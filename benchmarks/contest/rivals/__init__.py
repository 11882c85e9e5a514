"""Programs of the contest's rivals: each runs in its library's own environment, one JSON task in, one JSON answer out."""
