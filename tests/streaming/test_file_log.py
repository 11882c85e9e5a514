"""Files are read once, in order and to their end; what is no longer there stops the worker."""

import os
import shutil
import time

import pytest
from tests.support.streams.toy import HashResidents, line

import paramfilter as pf
from paramfilter_streams import FileLog, Position, Store, Worker
from paramfilter_streams.logs import CHUNK

START = Position()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path / "log"


def events(first, last):
    return b"".join(line("a", one, one / 10) + b"\n" for one in range(first, last + 1))


def work(folder):
    """Go on with a log to its end; return how many events were received, and how many of them were quarantined."""
    residents = HashResidents()
    worker = Worker(residents, FileLog(folder), Store(folder.parent / "store", residents.identity, walk_first=False))
    try:
        worker.run(lambda: False, until_idle=True)
        received = [one.received for one in worker.committed.values()]
        return sum(received), sum(one.counts["quarantined"] for one in worker.committed.values())
    finally:
        worker.close()


def refusal(folder):
    with pytest.raises(pf.errors.DataError, match="paramfilter streams reset") as error:
        work(folder)
    return str(error.value)


def test_files_are_read_as_they_grow_and_in_the_order_of_their_names(folder):
    (folder / "east").mkdir()
    (folder / "west").mkdir()
    first = folder / "east" / "day-1.jsonl"
    first.write_bytes(line("a", 1, 0.1) + b"\n" + line("a", 2, 0.2)[:9])
    log = FileLog(folder)
    assert log.partitions == ["east", "west"]
    (got,) = log.read({"east": START, "west": START}, 100, 0.0)
    assert got.raw == line("a", 1, 0.1) and log.lag == 9, "a line counts when its end is there"
    with first.open("ab") as file:
        file.write(line("a", 2, 0.2)[9:] + b"\n" + b"x" * (CHUNK + 5) + b"\n")
    (folder / "east" / "day-2.jsonl").write_bytes(line("a", 3, 0.3) + b"\n" + line("a", 4, 0.4) + b"\n")
    rest = log.read({"east": got.next}, 100, 0.0)
    assert [len(one.raw) < 100 for one in rest] == [True, False, True, True], "of a line too long only the beginning"
    assert [one.raw for one in rest if len(one.raw) < 100] == [line("a", one, one / 10) for one in (2, 3, 4)]
    for place, one in enumerate(rest[:-1]):
        assert log.read({"east": one.next}, 1, 0.0) == [rest[place + 1]]
    assert log.read({"east": rest[-1].next}, 100, 0.0) == [] and log.lag == 0
    assert work(folder) == (5, 1)


def test_files_beside_directories_are_read_too(folder):
    (folder / "east").mkdir()
    (folder / "east" / "1.jsonl").write_bytes(events(1, 3))
    (folder / "1.jsonl").write_bytes(line("b", 1, 0.5) + b"\n")
    assert work(folder) == (4, 0)


def test_files_that_have_been_read_may_be_deleted(folder):
    for day in range(3):
        (folder / f"day-{day}.jsonl").write_bytes(events(10 * day + 1, 10 * day + 10))
    assert work(folder) == (30, 0)
    for day in range(2):
        (folder / f"day-{day}.jsonl").unlink()
    (folder / "day-3.jsonl").write_bytes(events(31, 40))
    assert work(folder) == (40, 0)


def test_a_file_that_is_gone_before_it_was_read_to_its_end_is_missed(folder):
    (folder / "day-1.jsonl").write_bytes(events(1, 10))
    assert work(folder) == (10, 0)
    (folder / "day-1.jsonl").unlink()
    (folder / "day-2.jsonl").write_bytes(events(21, 30))
    assert "day-1.jsonl is gone" in refusal(folder)


def test_a_partition_that_is_gone_is_missed(folder):
    (folder / "east").mkdir()
    (folder / "east" / "1.jsonl").write_bytes(events(1, 3))
    assert work(folder) == (3, 0)
    shutil.rmtree(folder / "east")
    assert "1.jsonl is gone" in refusal(folder)


@pytest.mark.parametrize("last", [15, 40])
def test_a_file_that_was_cut_and_written_again_is_refused(folder, last):
    """What `copytruncate` of logrotate does; the new content may be shorter or longer than the old."""
    (folder / "x.jsonl").write_bytes(events(1, 10))
    assert work(folder) == (10, 0)
    (folder / "x.jsonl").write_bytes(events(11, last))
    assert "cut short or overwritten" in refusal(folder)


def test_a_file_in_place_of_another_is_refused(folder):
    (folder / "x.jsonl").write_bytes(events(1, 10))
    assert work(folder) == (10, 0)
    (folder / "new").write_bytes(events(1, 20))
    os.replace(folder / "new", folder / "x.jsonl")
    assert "another file" in refusal(folder)


def test_a_line_without_an_end_counts_once_there_is_a_later_file(folder):
    (folder / "1.jsonl").write_bytes(events(1, 10) + b'{"series": "a", "se')
    assert work(folder) == (10, 0), "its writer may still be at it"
    (folder / "2.jsonl").write_bytes(events(11, 30))
    assert work(folder) == (31, 1)


@pytest.mark.parametrize("name", ["day-0.jsonl", "day-1.jsonl"])
def test_what_is_written_behind_the_reader_is_noticed(folder, name):
    (folder / "day-1.jsonl").write_bytes(events(1, 10))
    (folder / "day-2.jsonl").write_bytes(events(11, 20))
    assert work(folder) == (20, 0)
    time.sleep(0.02)  # file systems tell times in steps of some milliseconds
    with (folder / name).open("ab") as file:
        file.write(events(21, 22))
    assert f"{name} was changed or added" in refusal(folder)


def test_files_that_do_not_grow_are_looked_at_ten_times_a_second(folder):
    (folder / "1.jsonl").write_bytes(events(1, 1))
    log = FileLog(folder)
    (got,) = log.read({".": START}, 10, 0.5)
    began = time.monotonic()
    assert not any(log.read({".": got.next}, 10, 0.5) for _ in range(12))
    assert time.monotonic() - began > 0.4, "twelve reads; without a pause they take a millisecond each"
    (folder / "1.jsonl").open("ab").write(events(2, 2))
    assert len(log.read({".": got.next}, 10, 0.5)) == 1


def test_a_directory_that_cannot_be_named_is_refused(folder):
    os.mkdir(os.fsencode(folder) + b"/\xff")
    with pytest.raises(pf.errors.DataError, match="not printable"):
        work(folder)


def test_there_must_be_a_directory(tmp_path):
    with pytest.raises(pf.errors.DataError, match="no directory"):
        FileLog(tmp_path / "nowhere")
