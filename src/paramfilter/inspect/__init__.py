"""What a model is like, found by trying it out: shapes, use of theta, what is linear, conjugate or separable."""

from paramfilter.inspect.analyse import Report, analyse

__all__ = ["Report", "analyse"]
