"""What a run has found, as labelled arrays that can be kept, compared, drawn and read by ArviZ."""

from paramfilter.results.keeping import load_result, save_result
from paramfilter.results.tables import to_pandas, to_parquet, to_polars
from paramfilter.results.tree import to_datatree
from paramfilter.running import concat_histories, history_row

__all__ = [
    "concat_histories",
    "history_row",
    "load_result",
    "save_result",
    "to_datatree",
    "to_pandas",
    "to_parquet",
    "to_polars",
]
