"""The programs of the contest's rivals: each in its library's environment, one JSON task in, one JSON answer out."""
