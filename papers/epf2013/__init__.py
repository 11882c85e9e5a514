"""The experiments of *The Extended Parameter Filter*, reproduced.

Y. Erol, L. Li, B. Ramsundar and S. Russell, ICML 2013. `FIGURES` has an entry for each figure of the paper that shows
numbers: what it claims, a function that computes and one that draws. `reproduce` does both, and can be stopped and
started again:

    from papers.epf2013 import reproduce
    reproduce(["taylor_densities"], "results", pictures="pictures")

The numbers of the documentation's page on the paper were made by `python -m papers.epf2013 all`.
"""

from pathlib import Path

from papers.epf2013.numbers import Results, read
from papers.epf2013.reproducing import reproduce
from papers.epf2013.table import FIGURES, PaperFigure

RESULTS = Path(__file__).parent / "results"
"""The numbers behind the documentation's page on the paper, one file a figure."""

__all__ = ["FIGURES", "RESULTS", "PaperFigure", "Results", "read", "reproduce"]
