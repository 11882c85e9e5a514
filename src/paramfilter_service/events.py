"""What one event says, and what is refused before it can do harm.

An event is one line of JSON, and a message of a log holds one line or many:

    {"series": "oslo", "seq": 17, "y": 0.31}

`seq` numbers the observations of a series: 1, 2, 3. `y` is a number, or a list of all the numbers of an observation,
with null where one is missing. `inputs` is the same for the model's inputs, if it has any. `at` is the time at which
the event was made, in seconds; it measures delays and never enters a state. `epoch` says how often the producer has
begun to count again: with a greater epoch, `seq` begins again at 1, and the series continues.

A line comes from anywhere, so its size, its types and the range of every number are checked before anything is used.
"""

import operator
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta

LARGEST_EVENT = 64 * 1024
"""Bytes of one line."""

NAME = r"^[A-Za-z0-9._-]{1,128}\Z"
"""What a series may be called: nothing that a page, a URL or a shell reads in another way."""

Name: Any = Annotated[str, Meta(pattern=NAME)]
Number: Any = Annotated[float, Meta(ge=-float(np.finfo(np.float32).max), le=float(np.finfo(np.float32).max))]
Sequence32: Any = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Epoch: Any = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds: Any = Annotated[float, Meta(ge=0, le=1e11)]


class Parser:
    """Read lines as events of one table.

    >>> kinds = {"series": pa.string(), "seq": pa.int64(), "y": pa.list_(pa.float64(), 2)}
    >>> parser = Parser(pa.schema({**kinds, "epoch": pa.int64(), "at": pa.float64(), "place": pa.int64()}))
    >>> events, refused = parser.table([b'{"series": "oslo", "seq": 1, "y": [0.5, null]}', b'{"seq": NaN}'])
    >>> events.to_pylist()
    [{'series': 'oslo', 'seq': 1, 'y': [0.5, None], 'epoch': 0, 'at': None, 'place': 0}]
    >>> refused
    {1: 'JSON is malformed: invalid character (byte 8)'}

    Args:
        schema: Of the table's events: `table.event_schema`.
    """

    def __init__(self, schema: pa.Schema):
        fields: list[Any] = [("series", Name), ("seq", Sequence32), ("y", _numbers(schema.field("y").type, True))]
        if "inputs" in schema.names:
            fields.append(("inputs", _numbers(schema.field("inputs").type, False)))
        fields += [("epoch", Epoch, 0), ("at", Seconds | None, None)]
        event = msgspec.defstruct("Event", fields, forbid_unknown_fields=True, gc=False)
        self._schema, self._decode = schema, msgspec.json.Decoder(event).decode
        self._values = operator.attrgetter(*(name for name, *_ in fields))

    def table(self, lines: Sequence[bytes]) -> tuple[pa.Table, dict[int, str]]:
        """Return the events of some lines with their place among these, and why each of the others is none."""
        rows, refused = [], {}
        for place, line in enumerate(lines):
            try:
                if len(line) > LARGEST_EVENT:
                    raise ValueError(f"an event has at most {LARGEST_EVENT} bytes")
                rows.append((*self._values(self._decode(line)), place))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                refused[place] = str(error)[:200]
        columns = zip(*rows, strict=True) if rows else [()] * len(self._schema)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, self._schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self._schema), refused


def _numbers(kind: pa.DataType, may_miss: bool) -> Any:
    """Return what JSON may hold for a column of numbers, or of lists of numbers."""
    one = Number | None if may_miss else Number
    if not pa.types.is_fixed_size_list(kind):
        return one
    several: Any = Annotated[list[one], Meta(min_length=kind.list_size, max_length=kind.list_size)]
    return several | None if may_miss else several
