"""A mutant: one small mistake in one file, and the tests that should notice."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "paramfilter"


@dataclass(frozen=True)
class Mutant:
    """A mistake that changes numbers, and neither crashes nor changes a shape.

    Args:
        name: The mistake, as a short sentence.
        file: Where it is made, below `src/paramfilter`.
        before: Text that stands in the file exactly once.
        after: What replaces it.
        tests: Test files or node ids, below `tests`; one of them should fail.
    """

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]

    @property
    def source(self) -> str:
        """The file as it is."""
        return (PACKAGE / self.file).read_text()

    @property
    def mutated_source(self) -> str:
        """The file with the mistake in it."""
        return self.source.replace(self.before, self.after)

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The tests as pytest wants them, seen from the root."""
        return tuple(f"tests/{test}" for test in self.tests)

    @property
    def digest(self) -> str:
        """What tells a verdict on this mutant from one on an older file or an older test."""
        files = sorted({node_id.split("::")[0] for node_id in self.node_ids})
        parts = [self.mutated_source, *self.node_ids, *((ROOT / file).read_text() for file in files)]
        return sha256("\0".join(parts).encode()).hexdigest()[:16]
