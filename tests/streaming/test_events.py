"""A line is refused before it can do harm, and with a reason that does not repeat it."""

import json
import math

import pytest
from tests.support.streams.draws import numbers
from tests.support.streams.fuzz import mutated

from paramfilter_streams import EventParser, RefusedEvent
from paramfilter_streams.events import LARGEST_EVENT

SCALAR = EventParser(())
VECTOR = EventParser((2,), inputs_shape=())


def test_an_event_says_what_it_says():
    event = SCALAR.parse(b'{"seq": 3, "series": "a.b-c_D9", "y": -1, "at": 12.5}')
    assert event.series == "a.b-c_D9" and event.sequence == 3 and event.y == [-1.0] and event.at == 12.5
    event = VECTOR.parse(b'{"series": "a", "seq": 1, "y": [null, 2.5], "inputs": 7}')
    assert math.isnan(event.y[0]) and event.y[1] == 2.5 and event.inputs == [7.0] and not event.is_missing
    assert VECTOR.parse(b'{"series": "a", "seq": 1, "y": null, "inputs": 7}').is_missing


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", "JSON"),
        (b"17", "object"),
        (b'{"series": "a", "seq": 1}', "has a y"),
        (b'{"series": "a", "seq": 1, "y": 0, "seq": 2}', "each field once"),
        (b'{"series": "a", "seq": 1, "y": {"a": 1, "a": 2}}', "each field once"),
        (b'{"series": "../etc/passwd", "seq": 1, "y": 0}', "name of 1 to 128"),
        (b'{"series": "%s", "seq": 1, "y": 0}' % (b"a" * 129), "name of 1 to 128"),
        (b'{"series": "a\\n", "seq": 1, "y": 0}', "name of 1 to 128"),
        (b'{"series": "a", "seq": true, "y": 0}', "whole number"),
        (b'{"series": "a", "seq": 1.0, "y": 0}', "whole number"),
        (b'{"series": "a", "seq": 0, "y": 0}', "whole number"),
        (b'{"series": "a", "seq": 2147483648, "y": 0}', "whole number"),
        (b'{"series": "a", "seq": 1, "y": NaN}', "null"),
        (b'{"series": "a", "seq": 1, "y": 1e999}', "not finite"),
        (b'{"series": "a", "seq": 1, "y": 1e300}', "largest of this precision"),
        (b'{"series": "a", "seq": 1, "y": "0"}', "numbers in the shape"),
        (b'{"series": "a", "seq": 1, "y": true}', "numbers in the shape"),
        (b'{"series": "a", "seq": 1, "y": [0]}', "numbers in the shape"),
        (b'{"series": "a", "seq": 1, "y": 0, "model": "x"}', "no other"),
        (b'{"series": "a", "seq": 1, "y": 0, "inputs": 1}', "told nothing"),
        (b'{"series": "a", "seq": 1, "y": 0, "at": 1e999}', "finite"),
        (b'{"series": "a", "seq": 1, "y": 0, "at": 1%s}' % (b"0" * 400), "finite"),
        (b'{"series": "\xff", "seq": 1, "y": 0}', "UTF-8"),
        (b'{"series": "a", "seq": 1, "y": %s}' % (b"9" * 5000), "JSON"),
        (b"[" * 100_000, "bytes"),
        (b"[" * 60_000, "deep"),
        (b'{"series": "a", "seq": 1, "y": ' + b"[" * 9 + b"]" * 9 + b"}", "deep"),
        (b" " * (LARGEST_EVENT + 1), "bytes"),
    ],
)
def test_what_is_no_event_is_refused_with_a_reason(line, words):
    with pytest.raises(RefusedEvent, match=words) as refused:
        SCALAR.parse(line)
    assert "passwd" not in str(refused.value)


def test_many_flat_brackets_are_not_deep():
    matrix = EventParser((10, 2))
    event = matrix.parse(json.dumps({"series": "a", "seq": 1, "y": [[1, 2]] * 10}).encode())
    assert event.y == [1.0, 2.0] * 10
    with pytest.raises(RefusedEvent, match=r"shape \[10, 2\]"):
        matrix.parse(json.dumps({"series": "a", "seq": 1, "y": [[1, 2]] * 9 + [[1]]}).encode())


def test_no_mutation_of_a_line_escapes():
    """Two thousand lines, most of them refused."""
    refused = sum(_is_refused(mutated(one)) for one in range(2_000))
    assert 1000 < refused < 2_000


def _is_refused(line: bytes) -> bool:
    try:
        event = SCALAR.parse(line)
    except RefusedEvent:
        return True
    assert len(event.y) == 1 and (math.isnan(event.y[0]) or abs(event.y[0]) < 1e39) and event.sequence >= 1
    return False


def test_numbers_of_a_seed_are_the_same_again():
    first, second = iter(numbers(3)), iter(numbers(3))
    assert [next(first) for _ in range(40)] == [next(second) for _ in range(40)]
