"""The experiments of *The Extended Parameter Filter*, reproduced.

Y. Erol, L. Li, B. Ramsundar and S. Russell, ICML 2013. `FIGURES` has an entry for each figure of the paper that shows
numbers: what it claims, a function that computes and one that draws. `reproduce` does both, and can be stopped and
started again:

    from paramfilter.paper import reproduce
    reproduce(["taylor_densities"], "results", pictures="pictures")

The numbers of the documentation's page on the paper were made by `python -m experiments.paper all`.
"""

from paramfilter.paper.numbers import Results, read
from paramfilter.paper.reproducing import reproduce
from paramfilter.paper.table import FIGURES, PaperFigure

__all__ = ["FIGURES", "PaperFigure", "Results", "read", "reproduce"]
