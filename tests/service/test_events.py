"""What is no event is refused with a reason, whatever bytes it is made of; what is one has numbers within bounds."""

import json
import math

import pyarrow as pa
import pytest
from tests.support.service.lines import numbers

from paramfilter_service.events import LARGEST_EVENT, Parser

REAL, PAIR = pa.float64(), pa.list_(pa.float64(), 2)


def parser(y=REAL, inputs=None):
    more = {} if inputs is None else {"inputs": inputs}
    last = {"epoch": pa.int64(), "at": pa.float64(), "place": pa.int64()}
    return Parser(pa.schema({"series": pa.string(), "seq": pa.int64(), "y": y, **more, **last}))


SCALAR = parser()


def parsed(line, one=SCALAR):
    events, refused = one.table([line])
    assert not refused, refused
    return events.to_pylist()[0]


def test_an_event_says_series_number_and_observation():
    found = parsed(b'{"series": "oslo", "seq": 17, "y": 0.31, "at": 1700000000.5, "epoch": 3}')
    assert found == {"series": "oslo", "seq": 17, "y": 0.31, "epoch": 3, "at": 1700000000.5, "place": 0}
    assert parsed(b'{"seq": 1, "series": "a.b-c_D", "y": null}\r')["y"] is None
    assert parsed(b'{"series": "a", "seq": 1, "y": 3}')["y"] == 3.0


def test_places_are_those_of_the_lines():
    good = b'{"series": "a", "seq": 1, "y": 1}'
    events, refused = SCALAR.table([good, b"poison", good])
    assert events["place"].to_pylist() == [0, 2] and list(refused) == [1]


def test_a_vector_has_its_length_and_inputs_are_never_missing():
    pair = parser(PAIR, PAIR)
    assert parsed(b'{"series": "a", "seq": 1, "y": [1, null], "inputs": [1, 2]}', pair)["y"] == [1.0, None]
    assert parsed(b'{"series": "a", "seq": 1, "y": null, "inputs": [1, 2]}', pair)["y"] is None
    for y, inputs in (
        ("[1]", "[1, 2]"),
        ("[[1, 2]]", "[1, 2]"),
        ("1", "[1, 2]"),
        ("[1, 2]", "[1, null]"),
        ("1", "null"),
    ):
        line = f'{{"series": "a", "seq": 1, "y": {y}, "inputs": {inputs}}}'.encode()
        assert pair.table([line])[1], line


EXTREMES = {
    "seq": ["0", "-1", "2147483648", "1.5", '"1"', "true", "null", "9" * 400, "[1]"],
    "y": ["1e999", "-1e999", "3.5e38", "-3.5e38", "1" + "0" * 5000, "NaN", "Infinity", '"1"', "true", "[1]", "{}"],
    "at": ["-1.7e308", "1.7e308", "1e12", "-1", "1e999", '"now"', "true", "1700000000000"],
    "epoch": ["-1", "9223372036854775808", "1.5", "null"],
    "series": ['""', '"a b"', '"a\\n"', '"<b>"', '"\\u0000"', '"../a"' * 40, "1", "null", f'"{"a" * 129}"', '"é"'],
    "more": ["1"],
    "inputs": ["1"],
}


@pytest.mark.parametrize("field", EXTREMES)
def test_every_field_is_refused_beyond_its_bounds(field):
    for value in EXTREMES[field]:
        fields = {"series": '"a"', "seq": "1", "y": "1", field: value}
        line = ", ".join(f'"{name}": {text}' for name, text in fields.items())
        assert SCALAR.table([f"{{{line}}}".encode()])[1], line


@pytest.mark.parametrize(
    "line",
    [b"", b"null", b"{}", b"\xef\xbb\xbf{}", b'{"series": "a", "seq": 1}', b'{"series": "a", "seq": 1, "y": 1}x',
     b'{"series": "\xff", "seq": 1, "y": 1}', b'{"series": "a", "seq": 1, "y": ' + b"[" * 60_000, b"[" * 60_000,
     b'{"series": "a", "seq": 1, "y": 1' + b" " * LARGEST_EVENT + b"}"],
)  # fmt: skip
def test_what_is_no_json_object_of_its_size_is_refused(line):
    _, refused = SCALAR.table([line])
    assert len(refused[0]) <= 200


PIECES = (
    *(
        b"[" * 9,
        b"{" * 300,
        b"]" * 9,
        b'"',
        b"\\",
        b"\x00",
        b"\xff\xfe",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"null",
        b"true",
    ),
    *(b'"seq": 1,', b'"y":', b"9" * 400, b"-0", b"1.7976931348623157e308", b"\\ud800", b"{}", b",", b":", b"e", b"."),
)


def mutated(seed):
    """Return a line with one to four mutations."""
    draw = numbers(seed)
    text = bytearray(b'{"series": "oslo", "seq": 17, "y": 0.31, "at": 1.5e9, "epoch": 0}')
    for _ in range(1 + next(draw) % 4):
        place, kind = next(draw) % (len(text) + 1), next(draw) % 4
        if kind == 0 and text:
            text[place % len(text)] ^= 1 << next(draw) % 8
        elif kind == 1:
            del text[place : place + 1 + next(draw) % 8]
        elif kind == 2:
            text[place:place] = PIECES[next(draw) % len(PIECES)]
        else:
            text[place:place] = text[next(draw) % (len(text) + 1) :][:16]
    return bytes(text)


def test_no_mutation_of_a_line_escapes():
    """Twenty thousand lines, most of them refused; of the others every number is within its bounds."""
    lines = [mutated(one) for one in range(20_000)]
    events, refused = SCALAR.table(lines)
    assert len(events) + len(refused) == len(lines) and 10_000 < len(refused) < 20_000
    for event in events.to_pylist():
        assert 1 <= event["seq"] < 2**31 and 0 <= event["epoch"] < 2**63 and 0 <= (event["at"] or 0) <= 1e11
        assert event["y"] is None or (math.isfinite(event["y"]) and abs(event["y"]) < 3.5e38)
        assert json.dumps(event["series"]).isascii()
