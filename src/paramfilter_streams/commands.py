"""The commands `paramfilter streams ...`, for operators."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from paramfilter_streams import lifetime, moving, operations, snapshots
from paramfilter_streams.groups import moves_between

app = typer.Typer(
    name="paramfilter streams",
    help="Look at the store of a service, take a series past a gap, move partitions, back up and restore.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

SnapshotsPath = Annotated[
    str, typer.Argument(metavar="SNAPSHOTS", help="A directory, or an address such as s3://bucket/fleet.")
]
StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="Directory of the store.")]


def main(arguments: Sequence[str]) -> None:
    """Run one of the commands."""
    app(list(arguments))


@app.command()
def inspect(store: StorePath, series: Annotated[str | None, typer.Option(help="One series.")] = None) -> None:
    """Print offsets and counts by partition, or where one series stands, as JSON. The service may be running."""
    typer.echo(json.dumps(operations.inspect(store, series), indent=2))


@app.command()
def quarantine(store: StorePath) -> None:
    """Print the quarantined lines and their reasons, one JSON object a line. The service may be running."""
    for one in operations.quarantined(store):
        typer.echo(json.dumps(one))


@app.command()
def reset(
    store: StorePath,
    series: Annotated[str | None, typer.Option(help="A series, which then goes on at --next.")] = None,
    next_step: Annotated[int, typer.Option("--next", min=1, help="Sequence number of its next event.")] = 1,
    keep_state: Annotated[
        bool, typer.Option(help="Keep what the series has learned; else start from the prior.")
    ] = False,
    partition: Annotated[str | None, typer.Option(help="A partition, which is then read from its start.")] = None,
) -> None:
    """Let a series or a partition go on after a loss. Stop the service first."""
    if (series is None) == (partition is None):
        raise typer.BadParameter("give either --series or --partition.")
    if series is not None:
        operations.reset_series(store, series, next_step, keep_state)
    elif partition is not None:
        operations.reset_partition(store, partition)


@app.command()
def backup(store: StorePath, target: Annotated[Path, typer.Argument(help="A new directory.")]) -> None:
    """Copy the last commit, states and offsets together. The service may be running."""
    operations.backup(store, target)


@app.command()
def snapshot(
    store: StorePath, target: SnapshotsPath, keep: Annotated[int, typer.Option(min=1, help="Snapshots to keep.")] = 3
) -> None:
    """Write what has changed since the last snapshot, and print what it came to. The service may be running."""
    typer.echo(json.dumps(snapshots.take(store, target, keep)._asdict()))


@app.command("snapshots")
def list_snapshots(target: SnapshotsPath) -> None:
    """Print the snapshots in a directory or object store with their offsets, one JSON object a line."""
    for one in snapshots.listed(target):
        made_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.made_at))
        typer.echo(json.dumps({**vars(one), "made_at": made_at}))


@app.command()
def restore(
    source: Annotated[str, typer.Argument(help="Directory of a backup, or where snapshots are.")],
    store: StorePath,
    number: Annotated[int | None, typer.Option(help="Number of a snapshot; the newest if not given.")] = None,
) -> None:
    """Put a backup or a snapshot in place of a lost store, and check it."""
    operations.restore(source, store, number)


@app.command()
def delete(
    store: StorePath,
    series: Annotated[str | None, typer.Option(help="A series, of which nothing is kept.")] = None,
    idle: Annotated[
        float | None, typer.Option(help="Forget the states of series without an event for so many seconds.")
    ] = None,
) -> None:
    """Delete a series, or forget the states of idle ones. Stop the service first."""
    if (series is None) == (idle is None):
        raise typer.BadParameter("give either --series or --idle.")
    if series is not None:
        lifetime.delete_series(store, series)
    elif idle is not None:
        typer.echo(f"{lifetime.forget_idle(store, idle)} series forgotten")


@app.command()
def move(
    source: Annotated[Path, typer.Argument(help="Directory of the store that owns the partition.")],
    target: Annotated[Path, typer.Argument(help="Directory of the store that takes over; made if not there.")],
    partition: Annotated[str, typer.Option(help="The partition.")],
    to: Annotated[str | None, typer.Option(help="Partition that has the key groups now.")] = None,
    groups: Annotated[str | None, typer.Option(help="Key groups that change their partition: 3,17,43-63.")] = None,
    drained_to: Annotated[int, typer.Option(help="Offset that the source must have reached; needed for groups.")] = 0,
    cancel: Annotated[bool, typer.Option(help="Give up a move that did not reach the target.")] = False,
) -> None:
    """Move a partition, or key groups, to another store. Stop both services first; call it again after a crash."""
    if (to is None) != (groups is None) or (groups is not None and not drained_to):
        raise typer.BadParameter("--groups, --to and --drained-to go together.")
    if cancel:
        moving.cancel(source, target, partition)
    elif to is None or groups is None:
        typer.echo(f"{moving.move(source, target, partition)} series moved")
    else:
        numbers = _numbers(groups)
        typer.echo(f"{moving.move_groups(source, target, partition, to, numbers, drained_to)} series moved")


@app.command()
def migrate(
    old: Annotated[Path, typer.Argument(help="Configuration of the service that was stopped.")],
    new: Annotated[Path, typer.Argument(help="Configuration with another model, filter or seed, and a new store.")],
    function: Annotated[
        str, typer.Option("--with", help="Makes the new state of a series: module:function.")
    ] = "paramfilter_streams.migrating:posterior_as_prior",
) -> None:
    """Make the store of NEW from that of OLD, which stays as it is. This runs code of the module that you name."""
    from paramfilter_streams import migrating  # loads JAX, which the other commands do without
    from paramfilter_streams.serving.configuration import read_configuration

    sys.path.insert(0, "")
    module, _, name = function.partition(":")
    before, after = read_configuration(old), read_configuration(new)
    made = getattr(importlib.import_module(module), name or "migrate")
    places = before.store["path"], after.store["path"]
    count = migrating.migrate(*places, before.make_residents(), after.make_residents(), made)
    typer.echo(f"{count} series migrated")


def _numbers(text: str) -> list[int]:
    """Read key groups, such as 3,17,43-63."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise typer.BadParameter(f"--groups is a list of numbers and ranges, such as 3,17,43-63; got {text!r}.")
        found += range(int(first), int(last or first) + 1)
    return found


@app.command()
def groups(before: int, after: int) -> None:
    """Print which key groups change their partition when a log of BEFORE partitions gets AFTER, as JSON lines."""
    for one in moves_between(before, after):
        typer.echo(json.dumps({**one._asdict(), "groups": ",".join(map(str, one.groups))}))
