"""Times of observations: what they are, whether they are in order, and how they continue.

Times label results and do not enter the model, which moves one step for each row. They are dates (`datetime64`, in UTC
if they had a time zone), numbers, or labels. A calendar is the step from one time to the next: an offset of pandas,
such as a business day or the end of a month, or a fixed gap.

>>> ends = as_times(["2026-01-31", "2026-02-28", "2026-03-31"])
>>> times_after(ends, 2, calendar_of(ends)).astype(str).tolist()
['2026-04-30', '2026-05-31']
>>> times_after(np.array([1, 2, 3]), 2, calendar_of(np.array([1, 2, 3]))).tolist()
[4, 5]
"""

from __future__ import annotations

import re
import warnings
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from jaxtyping import Shaped

from paramfilter.errors import DataError, extra

DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]|$)")
"""How text must begin to be read as a date, by `datetime.fromisoformat`."""

FEWEST_TIMES = 3
UNEVEN = 0.25
"""Share of the usual gap by which another may differ."""
MOST_HOLIDAYS = 0.1
"""Share of business days without a row that counts as holidays."""

Times = Shaped[np.ndarray, " _"]


def as_times(values: Any) -> Times:
    """Return times as dates, numbers or labels.

    Dates may be text in ISO format, `datetime`s, or timestamps and periods of pandas; those with a time zone become
    UTC, and a period its first moment.
    """
    values = np.asarray(values)
    if values.dtype.kind == "U" or (values.dtype == object and all(isinstance(one, str) for one in values)):
        texts = [one.strip() for one in values.tolist()]
        if not texts or not all(DATE.match(text) for text in texts):
            return values
        try:
            values = np.array([datetime.fromisoformat(text) for text in texts], object)
        except ValueError:
            return values
    if values.dtype != object or not len(values) or not all(map(_is_date, values)):
        return values
    dates = np.array([_as_datetime64(one) for one in values])
    days = dates.astype("datetime64[D]")
    return days if np.array_equal(days, dates) else dates


def _is_date(value: Any) -> bool:
    return isinstance(value, date) or hasattr(value, "to_timestamp")


def _as_datetime64(value: Any) -> np.datetime64:
    value = value.to_timestamp() if hasattr(value, "to_timestamp") else value
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)


def brief(time: Any) -> str:
    """Write a time, a date without its midnight."""
    return str(np.datetime_as_string(time, unit="auto")) if isinstance(time, np.datetime64) else str(time)


def strict_times(values: Any, name: str) -> Times:
    """Return a column of times as dates or numbers, or refuse it."""
    times = as_times(values)
    is_absent = [one is None or one != one for one in times] if times.dtype == object else times != times  # NaN, NaT
    if np.any(is_absent):
        row = int(np.argmax(is_absent))
        raise DataError(f'column "{name}" has no time in row {row}. Remove the row, or name its time.')
    if times.dtype.kind not in "Miuf":
        raise DataError(
            f'column "{name}" must hold dates, text such as 2026-01-31, or numbers; row 0 is '
            f"{brief(times[0])!r}. Convert the column first."
        )
    return times if times.dtype.kind == "M" else times.astype(float if times.dtype.kind == "f" else int)


def calendar_of(times: Times, freq: Any = None) -> Any:
    """Return the step between times: an offset of pandas for dates, a number for numbers; None if it is not known.

    Args:
        times: In order.
        freq: Of a calendar, such as "B" or "ME" of pandas; None finds it.
    """
    if times.dtype.kind in "iuf":
        return freq if freq is not None else np.median(np.diff(times)).astype(times.dtype) if len(times) > 1 else None
    if times.dtype.kind != "M" or (freq is None and len(times) < 2):
        return None
    pandas = extra("pandas", "tables")
    if freq is not None:
        try:
            return pandas.tseries.frequencies.to_offset(freq)
        except ValueError as error:
            raise DataError(
                f'freq={freq!r} is not a frequency of pandas. Write "D", "B", "W", "MS" or "ME".'
            ) from error
    index, offsets = pandas.DatetimeIndex(times), pandas.offsets
    gaps = np.diff(times)
    num_months = int(np.median(np.diff(times.astype("datetime64[M]")).astype(int)))
    if num_months >= 1:
        for end in (offsets.MonthEnd(num_months), offsets.BusinessMonthEnd(num_months)):
            if all(map(end.is_on_offset, index)):
                return end
        if len(set(zip(index.day, index.time, strict=True))) == 1:
            return pandas.DateOffset(months=num_months)
    usual = np.sort(gaps)[(len(gaps) - 1) // 2]
    has_weekends = np.any(index.day_of_week >= 5)
    if usual == np.timedelta64(1, "D") and not has_weekends and len(set(index.strftime("%G-%V"))) > 1:
        return offsets.BusinessDay()
    return pandas.Timedelta(usual)


def times_after(times: Times, num: int, calendar: Any) -> Times | None:
    """Continue times by `num` steps of a calendar; None without one."""
    if calendar is None or not len(times):
        return None
    if times.dtype.kind in "iuf":
        return times[-1] + calendar * np.arange(1, num + 1)
    last = extra("pandas", "tables").Timestamp(times[-1])
    return np.array([(last + step * calendar).to_datetime64() for step in range(1, num + 1)]).astype(times.dtype)


def require_order(times: Times, has_inputs: bool = False, freq: Any = None) -> None:
    """Refuse times that go back; warn of gaps, unless the gaps may be among the inputs of the model."""
    if times.dtype.kind not in "Miuf" or len(times) < 2:
        return
    if np.any(np.isnan(times)):
        raise DataError(f"row {int(np.argmax(np.isnan(times)))} has no time. Remove the row, or name its time.")
    earlier, later = times[:-1], times[1:]
    if np.any(later < earlier):
        row = int(np.argmax(later < earlier)) + 1
        when, before = brief(times[row]), brief(times[row - 1])
        raise DataError(f"row {row} ({when}) is earlier than the row before ({before}). Sort the table by time.")
    if np.any(later == earlier):
        row = int(np.argmax(later == earlier)) + 1
        text = f"rows {row - 1} and {row} have the same time ({brief(times[row])}). Keep one row for each time."
    elif len(times) < FEWEST_TIMES and freq is None:
        return
    else:
        text = _gaps(times, calendar_of(times, freq), freq, has_inputs)
    if text:
        warnings.warn(f"{text} The model moves one step for each row, whatever its time.", stacklevel=4)


def _gaps(times: Times, calendar: Any, freq: Any, has_inputs: bool) -> str:
    """Return what to do about rows that a calendar has and the times do not; empty if there are none."""
    if times.dtype.kind in "iuf" or type(calendar).__name__ == "Timedelta":
        gap = calendar.to_timedelta64() if times.dtype.kind == "M" else calendar
        steps = np.diff(times) / gap
        where, whole = np.abs(steps - 1) >= UNEVEN, np.round(steps)
        num_missing = int(np.sum(whole - 1)) if np.all((np.abs(steps - whole) < UNEVEN) & (whole >= 1)) else None
    else:
        dates = extra("pandas", "tables").date_range(times[0], times[-1], freq=calendar).to_numpy().astype(times.dtype)
        place = np.searchsorted(dates, times)
        is_on = dates[np.minimum(place, len(dates) - 1)] == times if len(dates) else np.zeros(len(times), bool)
        if freq is not None and not np.all(is_on):
            row = int(np.argmin(is_on))
            raise DataError(f"row {row} ({brief(times[row])}) is not a date of freq={freq!r}. Leave freq out.")
        where, num_missing = np.diff(place) != 1, len(dates) - len(times) if np.all(is_on) else None
        if (
            type(calendar).__name__ == "BusinessDay"
            and num_missing is not None
            and num_missing <= MOST_HOLIDAYS * len(dates)
        ):
            return ""
    if not np.any(where) or has_inputs:
        return ""
    row = int(np.argmax(where)) + 1
    found = f"times are not evenly spaced, first from {brief(times[row - 1])} to {brief(times[row])}."
    if num_missing is None:
        return f"{found} Pass the time since the row before as an input, such as inputs={{'dt': 'dt'}}."
    name = "B" if type(calendar).__name__ == "BusinessDay" else getattr(calendar, "freqstr", "<")
    asfreq = f"table.asfreq({'...' if '<' in name else repr(name)})"
    return f"{found} {num_missing} rows seem to be missing: insert them with NaN (pandas: {asfreq})."
