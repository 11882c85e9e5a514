"""Posteriors of very many series from Parquet files."""

from paramfilter_streams.backfilling.files import BackfillReport, backfill
from paramfilter_streams.backfilling.sharing import share_out
from paramfilter_streams.backfilling.worker import Columns

__all__ = ["BackfillReport", "Columns", "backfill", "share_out"]
