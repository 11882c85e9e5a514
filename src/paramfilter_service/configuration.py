"""What a configuration file says.

The file is TOML and only names and sets: a model and an algorithm by the names they are installed under, numbers, and
addresses. No code, path to code or expression can be given, so whoever may write the file may choose and not program.
Each section is a struct; a key that it does not have, or a value of another type, is refused.
"""

import ipaddress
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from paramfilter import models
from paramfilter.errors import DataError
from paramfilter.presets import PRESETS
from paramfilter.tables import Rules, StateTable
from paramfilter_service.file_log import FileLog
from paramfilter_service.jetstream import JetStreamLog
from paramfilter_service.kafka import KafkaLog
from paramfilter_service.store import Store
from paramfilter_service.worker import Batch, Worker

SHORTEST_TOKEN = 16


class Model(msgspec.Struct, forbid_unknown_fields=True):
    """A model that is installed under a name, and the numbers it is made with."""

    name: str
    numbers: dict[str, float] = {}


class Filter(msgspec.Struct, forbid_unknown_fields=True):
    """The preset of each series, its arguments, and two arguments of `StateTable`."""

    algorithm: str
    options: dict[str, Any] = {}
    seed: int = 0
    forecasts: bool = True


class Http(msgspec.Struct, forbid_unknown_fields=True):
    """Where the service listens.

    Args:
        host: An address. Anything but loopback needs a token.
        port: The port.
        token_file: A file that holds the token which every request for data must carry; None for none.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token_file: str | None = None

    def token(self) -> bytes | None:
        """Return the token, or None if there is none."""
        if self.token_file is not None:
            token = Path(self.token_file).read_bytes().strip()
            if len(token) < SHORTEST_TOKEN:
                raise DataError(f"the token in {self.token_file} is too short; use at least {SHORTEST_TOKEN} bytes.")
            return token
        if self.host != "localhost" and not ipaddress.ip_address(self.host).is_loopback:
            raise DataError(f"the address {self.host} is not loopback, so [http] needs a token_file.")
        return None


class Configuration(msgspec.Struct, forbid_unknown_fields=True):
    """The sections of a file."""

    model: Model
    filter: Filter
    log: FileLog | JetStreamLog | KafkaLog
    store: Store
    rules: dict[str, Any] = {}
    batch: Batch = Batch()
    http: Http = msgspec.field(default_factory=Http)

    def make_worker(self) -> Worker:
        """Build the filter, and open the store; nothing is compiled yet."""
        known = {name: getattr(models, name) for name in models.__all__}
        known |= {point.name: point for point in metadata.entry_points(group="paramfilter.models")}
        make = _named(known, "model", self.model.name)
        make = make.load() if isinstance(make, metadata.EntryPoint) else make
        preset = _named(PRESETS, "algorithm", self.filter.algorithm)
        try:
            filter, rules = preset(make(**self.model.numbers), **self.filter.options), Rules(**self.rules)
        except TypeError as error:
            raise DataError(f"[model], [filter] or [rules] does not fit: {error}.") from error
        table = StateTable(filter, self.filter.seed, rules, forecasts=self.filter.forecasts)
        return Worker(table, self.log, self.store, self.batch)


def read_configuration(path: str | os.PathLike) -> Configuration:
    """Read a file.

    Raises:
        DataError: A section or a key is not known, has another type, or is missing.
    """
    try:
        return msgspec.toml.decode(Path(path).read_bytes(), type=Configuration)
    except (OSError, msgspec.MsgspecError) as error:
        raise DataError(f"{path} is not a configuration: {error}.") from error


def _named(known: dict[str, Any], what: str, name: str) -> Any:
    if name not in known:
        raise DataError(f"there is no {what} {name!r}; there are {sorted(known)}.")
    return known[name]
