"""The service as a process: killed, fed poison, stopped."""

import signal
import sqlite3

from tests.support.service.lines import line, messy_lines
from tests.support.service.running import Running
from tests.support.service.working import content, run

from paramfilter_service.configuration import read_configuration

LINES = [one for one in messy_lines(3, 20, 40) if b"\n" not in one]


def test_a_service_that_is_killed_goes_on_with_the_same_bits_and_poison_does_not_end_it(tmp_path):
    poison = [b'{"series": "s0", "seq": %d, "y": 0.5, "at": -1.7e308}' % one for one in (31, 32, 33)]
    lines = [*LINES[:300], *poison, *LINES[300:]]
    with Running(tmp_path / "tried") as service:
        (tmp_path / "tried" / "log" / "1.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        service.start(statement=400)  # in the middle of a batch
        assert service.wait() == -signal.SIGKILL
        service.start()
        while service.received() == 0:
            pass
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
        service.start()
        assert "Fleet" in (service.ask("/") or "") and '"series": "s0"' in (service.ask("/series/s0") or "")
        service.finish(len(lines))
    with Running(tmp_path / "calm"):
        (tmp_path / "calm" / "log" / "1.jsonl").write_bytes(b"\n".join(lines) + b"\n")
        worker = run(read_configuration(tmp_path / "calm" / "fleet.toml").make_worker())
    assert worker.counts["received"] == len(lines) and worker.counts["quarantined"] > 3
    wanted, found = (content(tmp_path / name / "fleet.db") for name in ("calm", "tried"))
    for one in (wanted, found):
        one["positions"] = [
            (name, offset, line) for name, offset, _, line in one["positions"]
        ]  # another file, another inode
    assert found == wanted
    mode = (tmp_path / "tried" / "fleet.db").stat().st_mode
    assert mode & 0o077 == 0, "what the service writes is for its user"


def test_a_log_that_lost_what_comes_next_ends_the_service_with_the_reason(tmp_path):
    with Running(tmp_path) as service:
        log = tmp_path / "log" / "1.jsonl"
        log.write_bytes(line("a", 1, 0.5) + b"\n")
        service.start()
        while service.received() < 1:
            pass
        log.write_bytes(line("a", 2, 0.5) + b"\n")
        assert service.wait() == 1
        assert "was cut short or overwritten" in (tmp_path / "service.log").read_text()
    with sqlite3.connect(tmp_path / "fleet.db") as connection:
        assert connection.execute("SELECT number FROM counts WHERE name = 'received'").fetchone() == (1,)
