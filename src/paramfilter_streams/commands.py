"""The commands `paramfilter streams ...`, for operators."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from paramfilter_streams import operations, snapshots

app = typer.Typer(
    name="paramfilter streams",
    help="Look at the store of a service, take a series past a gap, back up and restore.",
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
