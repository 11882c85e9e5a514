"""What a model is like, found by trying it out: shapes, use of theta, what is linear, conjugate or separable."""

from paramfilter.inspect.report import ModelReport, inspect_model

__all__ = ["ModelReport", "inspect_model"]
