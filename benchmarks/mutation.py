"""Put small mistakes into a copy of the checkout, one at a time, and see whether a quick test notices.

    python -m benchmarks.mutation                                    # three mutants of each of seven files
    python -m benchmarks.mutation paramfilter/checkpoint.py --per-file 10 --seed 1

Mutants are made from the syntax tree of the code as it is, so no list has to be kept in step with it. The tests must
first pass on the code as it is. Then a mutant is

- killed: an assertion failed, `pytest.raises` saw no error, or a doctest printed something else;
- crashed: a test met another error, such as a wrong shape, or the code could not be imported;
- survived: all tests passed;
- timed out: no test had failed within the limit.

`results/mutants.json` is written after each mutant. A run replaces the rows of its own files and keeps the others.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

from benchmarks.mutation_operators import Mistake, mistakes_in

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"

# Where a wrong number or a lost event would do the most harm, with the tests that should notice.
TESTS = {
    "paramfilter/numerics/weights.py": ["tests/test_weights.py"],
    "paramfilter/nodes/inner/kalman.py": ["tests/nodes/test_inner_filters.py"],
    "paramfilter/nodes/surfaces/kriging.py": ["tests/nodes/test_kriging.py"],
    "paramfilter/nodes/surfaces/polynomial.py": ["tests/nodes/test_surface.py"],
    "paramfilter/filters/posterior.py": ["tests/filters/test_posterior.py"],
    "paramfilter/checkpoint.py": ["tests/test_checkpoint.py"],
    "paramfilter_streams/worker.py": ["tests/streaming/test_worker.py", "tests/streaming/test_actions.py"],
    "paramfilter_streams/store.py": ["tests/streaming/test_store.py", "tests/streaming/test_worker.py"],
}
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "_build")
TEST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
ASSERTION = re.compile(r"^[\s|]*E\s+(assert\b|AssertionError|Failed: DID NOT)|^Got:|^Expected nothing", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put small mistakes into a copy of the library; see which tests fail.")
    parser.add_argument("files", nargs="*", default=list(TESTS), metavar="file", help=f"of {', '.join(TESTS)}")
    parser.add_argument("--per-file", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one mutant")
    chosen = parser.parse_args()
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["file"] not in chosen.files]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        checkout = Path(shutil.copytree(ROOT, Path(folder) / "checkout", ignore=LEFT_OUT))
        for file in chosen.files:
            # The file itself, for its doctests, comes last: as the first path, pytest would import it a second time.
            tests = [*TESTS[file], f"src/{file}"]
            finished = run_tests(checkout, tests, None)
            assert finished.returncode == 0, f"fails as it is:\n{finished.stdout[-3000:]}{finished.stderr}"
            for mistake in mutants_of(file, chosen.per_file, chosen.seed):
                row = {"file": file, "function": mistake.function, "operator": mistake.operator}
                row |= {"before": mistake.before, "after": mistake.after}
                row |= verdict_on(checkout, file, mistake, tests, chosen.limit)
                rows.append(row)
                print(*row.values(), sep=" | ", flush=True)
                RESULTS.write_text(json.dumps({"seed": chosen.seed, "rows": rows}, indent=1) + "\n")
    print(dict(Counter(row["verdict"] for row in rows)))


def mutants_of(file: str, count: int, seed: int) -> list[Mistake]:
    """Choose mutants of a file by a hash of each, taking the kinds of mistakes in turn."""
    by_hash = {}
    for mistake in mistakes_in((SOURCE / file).read_text()):
        by_hash.setdefault(sha256(f"{seed} {file} {mistake}".encode()).hexdigest(), mistake)
    met, in_turn = Counter(), []
    for place, mistake in sorted(by_hash.items()):
        met[mistake.operator] += 1
        in_turn.append((met[mistake.operator], place, mistake))
    return [mistake for *_, mistake in sorted(in_turn, key=lambda turn: turn[:2])[:count]]


def verdict_on(checkout: Path, file: str, mistake: Mistake, tests: list[str], limit: float) -> dict:
    """Make the mistake in the copy, run the tests, and put the file back."""
    place, began = checkout / SOURCE.relative_to(ROOT) / file, time.perf_counter()
    source = place.read_text()
    for byte_code in (place.parent / "__pycache__").glob(f"{place.stem}.*"):
        byte_code.unlink()  # Python goes by time and size, which may be those of the last mutant
    place.write_text(mistake.mutated_source)
    try:
        finished = run_tests(checkout, tests, limit)
        test = TEST.search(finished.stdout)
        failure = "killed" if ASSERTION.search(finished.stdout) else "crashed"
        verdict, by = ("survived" if finished.returncode == 0 else failure), (test[1] if test else "")
    except subprocess.TimeoutExpired:
        verdict, by = "timed out", ""
    place.write_text(source)
    return {"verdict": verdict, "by": by, "seconds": round(time.perf_counter() - began, 1)}


def run_tests(checkout: Path, tests: list[str], limit: float | None) -> subprocess.CompletedProcess:
    """Run quick tests in the copy, on one thread, up to the first that fails."""
    environment = {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(checkout / "src"),
        "COLUMNS": "1000",  # so that pytest does not cut the names of tests
        # What a mutant leaves as it is has been compiled before.
        "JAX_COMPILATION_CACHE_DIR": str(checkout.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-rfE", "--tb=short", *tests]
    return subprocess.run(
        command, cwd=checkout, env=os.environ | environment, capture_output=True, text=True, timeout=limit
    )


if __name__ == "__main__":
    main()
