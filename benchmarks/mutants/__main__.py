"""Put each mistake of the catalogue into a copy of the library, and run the tests that should notice.

    python -m benchmarks.mutants                  # what has changed since the last run
    python -m benchmarks.mutants --again          # all
    python -m benchmarks.mutants 7 12             # by number
    python -m benchmarks.mutants "key" "weights"  # by words of the name

A mutant is killed if a named test fails by an assertion: a crash, an import that fails or an error in a fixture is no
kill. First the named tests are run on the library as it is, where they must pass. One thread each; `--jobs` runs
several mutants side by side. Verdicts are written to `results/mutants.json` after each mutant, so a run can be broken
off.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.mutants.catalogue import CATALOGUE
from benchmarks.mutants.mutant import PACKAGE, ROOT, Mutant

RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"

PASSED, FAILED = 0, 1
"""Exit codes of pytest; all others say that it could not run the tests."""

FAILURE = re.compile(r"^FAILED (?P<test>tests/.*?)(?: - (?P<reason>.*))?$", re.MULTILINE)
IS_ASSERTION = re.compile(r"^(assert\b|AssertionError)")


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant; `by` is the test that killed it, or what went wrong."""

    name: str
    file: str
    killed: bool
    by: str
    seconds: float
    digest: str


def main() -> None:
    parser = argparse.ArgumentParser(description="Put mistakes into the library, and see whether a test notices.")
    parser.add_argument("chosen", nargs="*", help="numbers, or words of names; all if none is given")
    parser.add_argument("--again", action="store_true", help="run also what has a verdict and has not changed")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    parser.add_argument("--no-baseline", action="store_true", help="do not first run the tests on the library as it is")
    arguments = parser.parse_args()

    verdicts = read_verdicts()
    todo = [mutant for mutant in chosen_by(arguments.chosen) if arguments.again or not is_settled(mutant, verdicts)]
    print(f"{len(CATALOGUE)} mutants, {len(todo)} to run")
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        work = Path(folder)
        if todo and not arguments.no_baseline:
            require_passing(todo, work)
        with ThreadPoolExecutor(arguments.jobs) as pool:
            running = [pool.submit(try_mutant, mutant, work) for mutant in todo]
            for count, finished in enumerate(as_completed(running), start=1):
                verdict = finished.result()
                verdicts[verdict.name] = verdict
                write_verdicts(verdicts)
                word = "killed  " if verdict.killed else "SURVIVED"
                print(
                    f"{count:3d}/{len(todo)} {word} {verdict.seconds:5.1f} s  {verdict.name}: {verdict.by}", flush=True
                )
    write_verdicts(verdicts)
    alive = [mutant.name for mutant in CATALOGUE if mutant.name not in verdicts or not verdicts[mutant.name].killed]
    print(f"{len(CATALOGUE) - len(alive)} of {len(CATALOGUE)} killed" + "".join(f"\n  alive: {name}" for name in alive))
    sys.exit(1 if alive else 0)


def chosen_by(words: list[str]) -> list[Mutant]:
    """Return the mutants with these numbers, or with these words in their names."""
    if not words:
        return list(CATALOGUE)
    numbers = {int(word) for word in words if word.isdigit()}
    texts = [word for word in words if not word.isdigit()]
    return [
        mutant
        for number, mutant in enumerate(CATALOGUE, start=1)
        if number in numbers or any(text in mutant.name for text in texts)
    ]


def is_settled(mutant: Mutant, verdicts: dict[str, Verdict]) -> bool:
    found = verdicts.get(mutant.name)
    return found is not None and found.killed and found.digest == mutant.digest


def require_passing(mutants: list[Mutant], work: Path) -> None:
    """Run all tests that are to kill something on the library as it is."""
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.node_ids))
    print(f"the library as it is, {len(tests)} tests: ", end="", flush=True)
    began = time.perf_counter()
    finished = run_tests(tests, copy_of_package(work / "as_it_is"), stop_at_first=False)
    if finished.returncode != PASSED:
        sys.exit(f"the tests fail without any mutant:\n{finished.stdout[-3000:]}{finished.stderr[-3000:]}")
    print(f"passed in {time.perf_counter() - began:.0f} s", flush=True)


def try_mutant(mutant: Mutant, work: Path) -> Verdict:
    """Put the mistake into a copy of the library, and run the tests that should notice."""
    began = time.perf_counter()
    copy = Path(tempfile.mkdtemp(dir=work))
    copy_of_package(copy)
    compile(mutant.mutated_source, mutant.file, "exec")
    (copy / PACKAGE.name / mutant.file).write_text(mutant.mutated_source)
    finished = run_tests(mutant.node_ids, copy, stop_at_first=True)
    shutil.rmtree(copy)
    killed, by = read_verdict(finished)
    return Verdict(mutant.name, mutant.file, killed, by, round(time.perf_counter() - began, 1), mutant.digest)


def read_verdict(finished: subprocess.CompletedProcess) -> tuple[bool, str]:
    if finished.returncode == PASSED:
        return False, "the named tests pass"
    failure = FAILURE.search(finished.stdout)
    if finished.returncode != FAILED or failure is None:
        return False, f"no test failed, but pytest did: {finished.stdout[-1500:]}{finished.stderr[-1500:]}"
    if not IS_ASSERTION.match(failure["reason"] or ""):
        return False, f"{failure['test']} failed, but by no assertion: {failure['reason']}"
    return True, failure["test"]


def copy_of_package(folder: Path) -> Path:
    """Copy the library into a folder, and return the folder."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run_tests(node_ids, package_folder: Path, stop_at_first: bool) -> subprocess.CompletedProcess:
    """Run tests of this repository on a copy of the library, on one thread."""
    single_thread = {
        "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    # A mutant leaves most compiled functions as they are; a function is found again by what it computes.
    compiled_once = {
        "JAX_COMPILATION_CACHE_DIR": str(package_folder.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    places = {
        "PYTHONPATH": f"{package_folder}{os.pathsep}{ROOT}",
        "COLUMNS": "1000",  # so that pytest does not cut its summary short
    }
    environment = os.environ | single_thread | compiled_once | places
    options = ["-q", "-p", "no:cacheprovider", "-rf", "--tb=short", *(["-x"] if stop_at_first else [])]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *node_ids], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def read_verdicts() -> dict[str, Verdict]:
    if not RESULTS.exists():
        return {}
    return {row["name"]: Verdict(**row) for row in json.loads(RESULTS.read_text())}


def write_verdicts(verdicts: dict[str, Verdict]) -> None:
    """Write the verdicts in the order of the catalogue; those on mutants that are no more are dropped."""
    rows = [asdict(verdicts[mutant.name]) for mutant in CATALOGUE if mutant.name in verdicts]
    RESULTS.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
