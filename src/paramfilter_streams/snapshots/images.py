"""What a snapshot consists of, as it is written down.

The file of a store is cut into chunks of 16 KiB. An image lists the digest of each chunk and where it is kept: in which
pack, and at which place there. A pack is a file of chunks; each snapshot adds one. An image is written after its pack,
and sealed by a digest of its own, so a torn one is refused.
"""

from __future__ import annotations

import hashlib
import json
import struct
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from paramfilter.errors import StoreError

CHUNK = 1 << 14
"""Bytes of a chunk: 4 pages of LMDB. The digests and places of a store's chunks take 1/680 of its size."""

DIGEST = 16
"""Bytes of a digest of a chunk; two chunks with the same digest do not happen by accident."""

SEAL = 32

FORMAT = 1
"""Number of this layout; a reader refuses numbers it does not know."""

_SIZES = struct.Struct("<QQ")

IMAGE, PACK = "snapshot-", "chunks-"
"""How the names of images and packs begin; a number follows."""


@dataclass(frozen=True)
class About:
    """What is said of a snapshot.

    Attributes:
        number: Its place among the snapshots of this store.
        made_at: When it was begun, in seconds since 1970.
        size: Bytes of the store's file.
        packs: Names of the packs that hold its chunks, and how many chunks each has.
        partitions: Offset and received events of each partition when it was begun; its states are not older.
        made_by: What the store belongs to: filter, layout, seed.
    """

    number: int
    made_at: float
    size: int
    packs: dict[str, int]
    partitions: dict[str, dict[str, Any]]
    made_by: dict[str, str]


@dataclass(frozen=True)
class Image:
    """A snapshot: what is said of it, and where each chunk is.

    Attributes:
        about: What is said of it.
        digests: One after another.
        places: Pack, as its place in `about.packs`, and place in the pack, of each chunk in turn.
    """

    about: About
    digests: bytes
    places: array[int]

    def chunks(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield pack, place in it and digest of each chunk, in order."""
        packs = list(self.about.packs)
        for number in range(len(self.places) // 2):
            pack, place = self.places[2 * number : 2 * number + 2]
            yield packs[pack], place, self.digests[number * DIGEST : (number + 1) * DIGEST]

    def packed(self) -> bytes:
        """Return it as bytes, sealed."""
        head = json.dumps({"format": FORMAT, **asdict(self.about)}).encode()
        content = _SIZES.pack(len(head), len(self.digests)) + head + self.digests + self.places.tobytes()
        return content + seal_of(content)


def unpacked(name: str, content: bytes) -> Image:
    """Read an image.

    Raises:
        StoreError: It is torn, damaged, or of another format.
    """
    body, seal = content[:-SEAL], content[-SEAL:]
    if len(body) < _SIZES.size or seal != seal_of(body):
        raise StoreError(f"{name} is torn or damaged: its seal does not match. Restore another snapshot.")
    head_size, digests_size = _SIZES.unpack_from(body)
    start = _SIZES.size + head_size
    head = json.loads(body[_SIZES.size : start])
    if head.pop("format") != FORMAT:
        raise StoreError(f"{name} was written by another version of paramfilter; restore it with that one.")
    places = array("I")
    places.frombytes(body[start + digests_size :])
    return Image(About(**head), body[start : start + digests_size], places)


def seal_of(content: bytes) -> bytes:
    """Return the digest that seals an image."""
    return hashlib.blake2b(content, digest_size=SEAL).digest()


def digest_of(chunk: bytes) -> bytes:
    """Return the digest of a chunk."""
    return hashlib.blake2b(chunk, digest_size=DIGEST).digest()


def name_of(kind: str, number: int) -> str:
    """Return the name of an image or a pack; names sort as their numbers."""
    return f"{kind}{number:010d}"


def numbers_of(names: list[str]) -> list[int]:
    """Return the numbers of the images among some names, the newest last."""
    digits = (name.removeprefix(IMAGE) for name in names if name.startswith(IMAGE))
    return sorted(int(one) for one in digits if one.isdigit())
