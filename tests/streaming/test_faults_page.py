"""The fault matrix names tests that exist, and the alert rules metrics that exist."""

import re
from pathlib import Path

from tests.support.streams.toy import HashResidents

from paramfilter_streams import FileLog, Store, Worker
from paramfilter_streams.serving import Metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text()
ALERTS = (ROOT / "docs" / "_static" / "paramfilter-alerts.yml").read_text()


def test_each_test_that_the_page_names_exists():
    named = re.findall(r"`(test_\w+)(?:::(test_\w+))?`", PAGE)
    rows = [row for row in PAGE.splitlines() if re.match(r"\| (?!fault \|)", row)]
    assert len(rows) >= 40 and all("`test_" in row for row in rows)
    for file, function in named:
        text = (Path(__file__).parent / f"{file}.py").read_text()
        assert f"def {function}(" in text if function else "def test_" in text, f"{file}::{function}"


def test_each_metric_that_the_alerts_name_exists(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.jsonl").write_bytes(b"poison\n")
    residents = HashResidents()
    worker = Worker(residents, FileLog(tmp_path / "log"), Store(tmp_path / "store", residents.identity))
    worker.run(lambda: False, until_idle=True)
    shown = {line.split("{")[0].split(" ")[0] for line in Metrics(worker).text().decode().splitlines()}
    named = set(re.findall(r"\bparamfilter_\w+", ALERTS))
    assert len(named) >= 6 and named <= shown, named - shown
    fates = set(re.findall(r'fate="(\w+)"', ALERTS))
    assert fates <= worker.committed["."].counts.keys()
    worker.close()
