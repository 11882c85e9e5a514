"""Numbers without end from a seed, by hashes: a forked process has no JAX, and a small one does not want it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable


def numbers(seed: int) -> Iterable[int]:
    """Yield 32-bit numbers."""
    block = 0
    while True:
        digest = hashlib.blake2b(struct.pack("<QQ", seed, block)).digest()
        yield from struct.unpack("<16I", digest)
        block += 1
