"""How theta enters a model: which parts depend on it, what is conjugate, what is separable, by trying the model out."""

from paramfilter.separability.analyse import Report, analyse

__all__ = ["Report", "analyse"]
