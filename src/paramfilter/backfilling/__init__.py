"""Posteriors of very many series from Parquet files."""

from paramfilter.backfilling.files import BackfillReport, backfill
from paramfilter.backfilling.sharing import share_out
from paramfilter.backfilling.worker import Columns

__all__ = ["BackfillReport", "Columns", "backfill", "share_out"]
