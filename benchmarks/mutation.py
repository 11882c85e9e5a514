"""Put small mistakes into a copy of the checkout, one at a time, and see whether a quick test notices.

    python -m benchmarks.mutation                               # three mutants of each module of the numerical core
    python -m benchmarks.mutation weights beliefs --per-module 10 --seed 1

Mutants are made from the syntax tree of the code as it is, so no list has to be kept in step with it. The tests must
first pass on the code as it is. Then a mutant is

- killed: an assertion failed, `pytest.raises` saw no error, or a doctest printed something else;
- crashed: a test met another error, such as a wrong shape, or the code could not be imported;
- survived: all tests passed;
- timed out: no test had failed within the limit.

`results/mutants.json` is written after each mutant. A run replaces the rows of its own modules and keeps the others.
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
PACKAGE = ROOT / "src" / "paramfilter"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"

# The numerical core: files, or folders of files, below the package.
MODULES = (
    *("filters/loop", "filters/islands", "filters/backward", "beliefs", "proposals", "resampling"),
    *("polynomials", "numerics/weights", "numerics/compensated", "model", "distributions", "parameters"),
    *("inspect/linear_gaussian", "fleet", "references"),
)
# Where neither the folder nor the first word of the file's name leads to its tests.
TESTS_ELSEWHERE = {
    "filters/loop": ["filters/test_loop.py", "filters/test_bad_input.py", "filters/test_backward.py"],
    "inspect/linear_gaussian": ["references/test_kalman_grid.py", "nodes/test_inner_filters.py"],
    "fleet": ["test_fleet.py"],
    "numerics/weights": ["test_weights.py"],
    "numerics/compensated": ["test_compensated.py"],
    "beliefs/log_polynomial": ["beliefs/test_taylor.py"],
    "beliefs/coordinates": ["beliefs/test_grid.py", "beliefs/test_taylor.py"],
}
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".*", "_build")
TEST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
ASSERTION = re.compile(r"^[\s|]*E\s+(assert\b|AssertionError|Failed: DID NOT)|^Got:|^Expected nothing", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description="Put small mistakes into a copy of the library; see which tests fail.")
    parser.add_argument("modules", nargs="*", default=MODULES, metavar="module", help=f"of {', '.join(MODULES)}")
    parser.add_argument("--per-module", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one mutant")
    chosen = parser.parse_args()
    rows = [row for row in json.loads(RESULTS.read_text())["rows"] if row["module"] not in chosen.modules]
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        checkout = Path(shutil.copytree(ROOT, Path(folder) / "checkout", ignore=LEFT_OUT))
        passing = set()
        for module in chosen.modules:
            for file, mistake in mutants_of(module, chosen.per_module, chosen.seed):
                tests = quick_tests_of(file)
                if tests not in passing:
                    finished = run_tests(checkout, list(tests), None)
                    assert finished.returncode == 0, f"fails as it is:\n{finished.stdout[-3000:]}{finished.stderr}"
                    passing.add(tests)
                row = {"module": module, "file": file, "function": mistake.function, "operator": mistake.operator}
                row |= {"before": mistake.before, "after": mistake.after}
                row |= verdict_on(checkout, file, mistake, list(tests), chosen.limit)
                rows.append(row)
                print(*row.values(), sep=" | ", flush=True)
                RESULTS.write_text(json.dumps({"seed": chosen.seed, "rows": rows}, indent=1) + "\n")
    print(dict(Counter(row["verdict"] for row in rows)))


def mutants_of(module: str, count: int, seed: int) -> list[tuple[str, Mistake]]:
    """Choose mutants of a module by a hash of each, taking the kinds of mistakes in turn."""
    folder = PACKAGE / module
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    by_hash = {}
    for file in files:
        name = str(file.relative_to(PACKAGE))
        for mistake in mistakes_in(file.read_text()):
            by_hash.setdefault(sha256(f"{seed} {name} {mistake}".encode()).hexdigest(), (name, mistake))
    met, in_turn = Counter(), []
    for place, (name, mistake) in sorted(by_hash.items()):
        met[mistake.operator] += 1
        in_turn.append((met[mistake.operator], place, (name, mistake)))
    return [mutant for *_, mutant in sorted(in_turn, key=lambda turn: turn[:2])[:count]]


def quick_tests_of(file: str) -> tuple[str, ...]:
    """Return the test files that belong to a file, and the file itself for its doctests.

    The file comes last: as the first path, pytest would import it a second time, with classes of its own.
    """
    name, tests = Path(file).with_suffix(""), ROOT / "tests"
    elsewhere = TESTS_ELSEWHERE.get(str(name)) or TESTS_ELSEWHERE.get(name.parts[0], [])
    named = sorted((tests / name.parent).glob(f"test_{name.name.split('_')[0]}*.py"))
    found = [tests / test for test in elsewhere] or named or sorted((tests / name.parent).glob("test_*.py"))
    return tuple(str(path.relative_to(ROOT)) for path in (*found, PACKAGE / file))


def verdict_on(checkout: Path, file: str, mistake: Mistake, tests: list[str], limit: float) -> dict:
    """Make the mistake in the copy, run the tests, and put the file back."""
    place, began = checkout / PACKAGE.relative_to(ROOT) / file, time.perf_counter()
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
