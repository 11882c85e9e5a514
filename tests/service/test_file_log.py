"""Files are read once, in order and to their end; what is no longer there stops the reader."""

import os
import shutil
import time

import pytest
from tests.support.service.lines import line

import paramfilter as pf
from paramfilter_service.file_log import BLOCK, FileLog
from paramfilter_service.logs import Position

START = Position()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def events(first, last):
    return b"".join(line("a", one, one / 10) + b"\n" for one in range(first, last + 1))


class Reader:
    """What a worker does with a log: it continues where it was, with a new log each time."""

    def __init__(self, folder):
        self.folder, self.positions = folder, {}

    def read(self):
        """Return how many lines there are until now."""
        log, found = FileLog(str(self.folder)), 0
        while messages := log.read(dict.fromkeys(log.partitions, START) | self.positions, 100, 0.0):
            for message in messages:
                self.positions[message.partition] = message.next
                found += len(message.raw.removesuffix(b"\n").split(b"\n"))
        return found

    def refusal(self):
        with pytest.raises(pf.errors.DataError, match="DELETE FROM positions") as error:
            self.read()
        return str(error.value)


@pytest.fixture
def reader(folder):
    return Reader(folder)


def test_files_are_read_as_they_grow_and_in_the_order_of_their_names(folder):
    (folder / "east").mkdir()
    (folder / "west").mkdir()
    first = folder / "east" / "day-1.jsonl"
    first.write_bytes(line("a", 1, 0.1) + b"\n" + line("a", 2, 0.2)[:9])
    log = FileLog(str(folder))
    assert log.partitions == ["east", "west"]
    (got,) = log.read({"east": START, "west": START}, 100, 0.0)
    assert got.raw == line("a", 1, 0.1) + b"\n" and log.lag == 9, "a line counts when its end is there"
    with first.open("ab") as file:
        file.write(line("a", 2, 0.2)[9:] + b"\n" + b"x" * (BLOCK + 5) + b"\n" + line("a", 3, 0.3) + b"\n")
    (folder / "east" / "day-2.jsonl").write_bytes(events(4, 5))
    found = [got]
    while more := log.read({"east": found[-1].next}, 100, 0.0):
        found += more
    whole = [one.raw for one in found[1:]]
    assert whole[0] == line("a", 2, 0.2) + b"\n" and whole[2:] == [line("a", 3, 0.3) + b"\n", events(4, 5)]
    assert whole[1] == b"x" * (64 * 1024 + 1), "of a line too long only the beginning"
    for place, one in enumerate(found[:-1]):
        again = FileLog(str(folder)).read({"east": one.next}, 1, 0.0)
        assert again == [found[place + 1]] and again[0].start.offset in (0, one.next.offset)
    assert log.read({"east": found[-1].next}, 100, 0.0) == [] and log.lag == 0


def test_a_message_that_was_read_in_part_begins_again_at_the_same_line(folder):
    (folder / "1.jsonl").write_bytes(events(1, 3))
    (first,) = FileLog(str(folder)).read({".": START}, 1, 0.0)
    with (folder / "1.jsonl").open("ab") as file:
        file.write(events(4, 5))
    (again,) = FileLog(str(folder)).read({".": first.start._replace(line=2)}, 1, 0.0)
    assert again.start.offset == 0 and again.raw == events(1, 5)
    os.replace(shutil.copy(folder / "1.jsonl", folder / "new"), folder / "1.jsonl")
    with pytest.raises(pf.errors.DataError, match="another file"):
        FileLog(str(folder)).read({".": first.start._replace(line=2)}, 1, 0.0)


def test_files_beside_directories_are_read_too(folder, reader):
    (folder / "east").mkdir()
    (folder / "east" / "1.jsonl").write_bytes(events(1, 3))
    (folder / "1.jsonl").write_bytes(line("b", 1, 0.5) + b"\n")
    assert reader.read() == 4


def test_files_that_have_been_read_may_be_deleted(folder, reader):
    for day in range(3):
        (folder / f"day-{day}.jsonl").write_bytes(events(10 * day + 1, 10 * day + 10))
    assert reader.read() == 30
    for day in range(2):
        (folder / f"day-{day}.jsonl").unlink()
    for day in (3, 4):  # empty files are passed over
        (folder / f"day-{day}.jsonl").touch()
    (folder / "day-5.jsonl").write_bytes(events(31, 40))
    assert reader.read() == 10


def test_a_file_that_is_gone_before_it_was_read_to_its_end_is_missed(folder, reader):
    (folder / "day-1.jsonl").write_bytes(events(1, 10))
    assert reader.read() == 10
    (folder / "day-1.jsonl").unlink()
    (folder / "day-2.jsonl").write_bytes(events(21, 30))
    assert "day-1.jsonl is gone" in reader.refusal()


def test_a_partition_that_is_gone_is_missed(folder, reader):
    (folder / "east").mkdir()
    (folder / "east" / "1.jsonl").write_bytes(events(1, 3))
    assert reader.read() == 3
    shutil.rmtree(folder / "east")
    assert "1.jsonl is gone" in reader.refusal()


@pytest.mark.parametrize("last", [15, 40])
def test_a_file_that_was_cut_and_written_again_is_refused(folder, reader, last):
    """What `copytruncate` of logrotate does; the new content may be shorter or longer than the old."""
    (folder / "x.jsonl").write_bytes(events(1, 10))
    assert reader.read() == 10
    (folder / "x.jsonl").write_bytes(events(11, last))
    assert "cut short or overwritten" in reader.refusal()


def test_a_file_in_place_of_another_is_refused(folder, reader):
    (folder / "x.jsonl").write_bytes(events(1, 10))
    assert reader.read() == 10
    (folder / "new").write_bytes(events(1, 20))
    os.replace(folder / "new", folder / "x.jsonl")
    assert "another file" in reader.refusal()


def test_a_line_without_an_end_counts_once_there_is_a_later_file(folder, reader):
    (folder / "1.jsonl").write_bytes(events(1, 10) + b'{"series": "a", "se')
    assert reader.read() == 10, "its writer may still be at it"
    (folder / "2.jsonl").write_bytes(events(11, 30))
    assert reader.read() == 21


@pytest.mark.parametrize("name", ["day-0.jsonl", "day-1.jsonl"])
def test_what_is_written_behind_the_reader_is_noticed(folder, reader, name):
    (folder / "day-1.jsonl").write_bytes(events(1, 10))
    (folder / "day-2.jsonl").write_bytes(events(11, 20))
    assert reader.read() == 20
    time.sleep(0.02)  # file systems tell times in steps of some milliseconds
    with (folder / name).open("ab") as file:
        file.write(events(21, 22))
    assert f"{name} was changed or added" in reader.refusal()


def test_files_that_do_not_grow_are_looked_at_ten_times_a_second(folder):
    (folder / "1.jsonl").write_bytes(events(1, 1))
    log = FileLog(str(folder))
    (got,) = log.read({".": START}, 10, 0.5)
    began = time.monotonic()
    assert not any(log.read({".": got.next}, 10, 0.5) for _ in range(12))
    assert time.monotonic() - began > 0.4, "twelve reads; without a pause they take a millisecond each"
    with (folder / "1.jsonl").open("ab") as file:
        file.write(events(2, 2))
    assert len(log.read({".": got.next}, 10, 0.5)) == 1


def test_a_directory_that_cannot_be_named_is_refused(folder, reader):
    os.mkdir(os.fsencode(folder) + b"/\xff")
    with pytest.raises(pf.errors.DataError, match="not printable"):
        reader.read()


def test_there_must_be_a_directory(tmp_path):
    with pytest.raises(pf.errors.DataError, match="no directory"):
        FileLog(str(tmp_path / "nowhere"))
