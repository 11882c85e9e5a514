"""What a configuration file says, made into a worker.

The file is TOML and only names and sets: a model and an algorithm by the names they are installed under, numbers, and
addresses. No code, path to code or expression can be given, so whoever may write the file may choose and not program.

    [model]
    name = "linear_gaussian"        # of paramfilter.models, or an entry point of the group "paramfilter.models"
    numbers = { r = 0.5 }

    [filter]
    algorithm = "node_filter"       # may be left out: what auto_filter would choose
    particles = 512                 # nodes or particles; the same
    num_kept = 16384                # observations that a node filter keeps for each series
    room = 10000                    # series
    seed = 0
    forecasts = true                # false saves about 35 μs a step; pages then show no forecasts

    [log]
    kind = "jetstream"              # or "kafka", "files", "pipe"
    servers = "nats://127.0.0.1:4222"
    stream = "events"
    subjects = ["events.0"]

    [outputs]                       # may be left out: posteriors are in the store
    kind = "jetstream"              # or "kafka"
    servers = "nats://127.0.0.1:4222"
    subject = "posteriors"

    [store]
    path = "store"

    [snapshots]                     # may be left out: then nothing of the store leaves its disk
    target = "/mnt/backup/fleet"    # or "s3://bucket/fleet"
    seconds = 300

    [http]
    port = 8080

`[rules]`, `[pace]` and `[limits]` take the fields of `streaming.Rules`, `streaming.Pace` and `streaming.Limits`.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from paramfilter import models
from paramfilter.errors import DataError
from paramfilter.model import StateSpaceModel
from paramfilter.presets import PRESETS, auto_filter, choose_algorithm, node_filter
from paramfilter_streams import FileLog, FleetResidents, Limits, Log, Pace, PipeLog, Rules, Sink, Store, Worker
from paramfilter_streams.jetstream import JetStreamLog, JetStreamSink
from paramfilter_streams.kafka import KafkaLog
from paramfilter_streams.kafka_sink import KafkaSink
from paramfilter_streams.snapshots.schedule import Schedule, Snapshots

GROUP = "paramfilter.models"
"""The group of entry points under which other packages install models."""

LOGS: dict[str, Callable[..., Log]] = {
    "jetstream": JetStreamLog,
    "kafka": KafkaLog,
    "files": FileLog,
    "pipe": PipeLog,
}

SINKS: dict[str, Callable[..., Sink]] = {"jetstream": JetStreamSink, "kafka": KafkaSink}

WITH_LASTING_OFFSETS = ("jetstream", "kafka")
"""Logs whose offsets mean the same as long as the log is there; files have other offsets in each file."""

SECTIONS = {"model", "filter", "log", "outputs", "store", "rules", "pace", "limits", "http", "snapshots"}


@dataclass(frozen=True)
class Http:
    """Where the front listens.

    Args:
        host: An address. Anything but loopback needs a token.
        port: 0 for one that is free.
        token_file: A file that holds the token which every request for data must carry; None for none.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token_file: str | None = None

    def __post_init__(self):
        if not self.is_loopback and self.token_file is None:
            raise DataError(f"the address {self.host} is not loopback, so [http] needs a token_file.")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback

    def token(self) -> bytes | None:
        """Return the token, or None if there is none to show."""
        if self.token_file is None:
            return None
        token = Path(self.token_file).read_bytes().strip()
        if len(token) < SHORTEST_TOKEN:
            raise DataError(f"the token in {self.token_file} has {len(token)} bytes; use at least {SHORTEST_TOKEN}.")
        return token


SHORTEST_TOKEN = 16


@dataclass(frozen=True)
class Configuration:
    """The sections of a file, each checked for its names."""

    model: Mapping[str, Any]
    filter: Mapping[str, Any]
    log: Mapping[str, Any]
    store: Mapping[str, Any]
    outputs: Mapping[str, Any] | None = None
    rules: Rules = Rules()
    pace: Pace = Pace()
    limits: Limits = field(default_factory=Limits)
    http: Http = field(default_factory=Http)
    snapshots: Snapshots | None = None

    @property
    def algorithm(self) -> str:
        """The name of the filter, chosen for the model if the file names none."""
        return self._choice[0]

    @cached_property
    def _made_model(self) -> StateSpaceModel:
        return _model(self.model)

    @cached_property
    def _choice(self) -> tuple[str, int | None]:
        """The name of the filter, and how many particles or nodes it has by default."""
        name = self.filter.get("algorithm", auto_filter.__name__)
        if name == auto_filter.__name__:
            chosen = choose_algorithm(self._made_model)
            return (chosen.name if chosen.name in PRESETS else name), chosen.num_particles
        return name, None if name == node_filter.__name__ else 256

    def make_worker(self) -> Worker[FleetResidents]:
        """Build the filter, open the store and the log; nothing is compiled yet."""
        if (self.outputs or {}).get("transactional_id") and self.log.get("kind") not in WITH_LASTING_OFFSETS:
            raise DataError(f"[outputs] transactional_id needs a log of the kind {' or '.join(WITH_LASTING_OFFSETS)}.")
        residents = self.make_residents()
        store = _built(Store, "store", {**self.store, "identity": residents.identity})
        try:
            log = _chosen(LOGS, "log", self.log)
            sink = None if self.outputs is None else _chosen(SINKS, "outputs", self.outputs)
        except BaseException:
            store.close()
            raise
        return Worker(residents, log, store, sink, self.rules, self.pace, self.limits)

    def make_residents(self) -> FleetResidents:
        """Build the filter and memory for its states."""
        return _built(FleetResidents, "filter", self._filter_options())

    def make_schedule(self) -> Schedule | None:
        """Return what takes snapshots of the store; None if the file asks for none."""
        return None if self.snapshots is None else Schedule(self.store["path"], self.snapshots)

    def _filter_options(self) -> dict[str, Any]:
        options = {"forecasts": True, **self.filter}
        options.pop("algorithm", None)
        make, size = _named(PRESETS, "algorithm", self.algorithm), options.pop("particles", self._choice[1])
        kept = {"num_kept": options.pop("num_kept")} if "num_kept" in options else {}
        if kept and make is not node_filter:
            raise DataError(f"[filter] num_kept is for node_filter, and the algorithm here is {self.algorithm}.")
        return {**options, "filter": make(self._made_model, size, **kept)}


def read_configuration(path: str | os.PathLike) -> Configuration:
    """Read a file, and refuse what it should not say.

    Raises:
        DataError: A section or a field is not known, or one is missing.
    """
    try:
        content = tomllib.loads(Path(path).read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"{path} is not a readable configuration: {error}.") from error
    unknown = content.keys() - SECTIONS
    if unknown:
        raise DataError(f"{path} has the sections {sorted(unknown)}; known are {sorted(SECTIONS)}.")
    parts = {"rules": Rules, "pace": Pace, "limits": Limits, "http": Http, "snapshots": Snapshots}
    given = {name: _built(parts[name], name, part) if name in parts else part for name, part in content.items()}
    return _built(Configuration, "file", given)


def _model(section: Mapping[str, Any]) -> StateSpaceModel:
    """Make a model that is installed under a name."""
    known = {name: getattr(models, name) for name in models.__all__}
    known |= {point.name: point for point in metadata.entry_points(group=GROUP)}
    found = _named(known, "model", section.get("name"))
    numbers = section.get("numbers", {})
    if section.keys() - {"name", "numbers"} or not all(type(one) in (int, float) for one in numbers.values()):
        raise DataError("[model] has a name and, if the model takes any, numbers = { ... }.")
    make = found.load() if isinstance(found, metadata.EntryPoint) else found
    return _built(make, "model", numbers)


def _chosen(kinds: Mapping[str, Callable], section: str, options: Mapping[str, Any]) -> Any:
    rest = dict(options)
    return _built(_named(kinds, f"kind of {section}", rest.pop("kind", None)), section, rest)


def _named(known: Mapping[str, Any], what: str, name: Any) -> Any:
    if not isinstance(name, str) or name not in known:
        raise DataError(f"there is no {what} {name!r}; there are {sorted(known)}.")
    return known[name]


def _built(make: Callable, section: str, options: Mapping[str, Any]) -> Any:
    """Call with the options of a section; a name that is not known is the file's mistake, not ours."""
    try:
        return make(**options)
    except TypeError as error:
        raise DataError(f"[{section}] does not fit: {error}.") from error
