"""Snapshots of a running store in a directory or an object store, against the loss of its disk.

A snapshot is the whole store as one commit left it: states, posteriors, quarantine and the offsets that led to them. It
is kept in chunks, and a chunk that has not changed since the snapshot before is not written again. `taking` takes them,
`restoring` makes a store of one, and `schedule` has them taken while a service runs.

Only a process of its own reads the store, and it needs no JAX, so nothing here imports the rest of the package.
"""

from paramfilter_streams.snapshots.restoring import listed, restore
from paramfilter_streams.snapshots.taking import take

__all__ = ["listed", "restore", "take"]
