"""From a log of events to posteriors, exactly once."""

from paramfilter_streams.events import Event, EventParser, RefusedEvent
from paramfilter_streams.file_log import FileLog
from paramfilter_streams.logs import Log, LogUnreachableError, Message, PipeLog, Position
from paramfilter_streams.ordering import Fate, Rules
from paramfilter_streams.posteriors import Output, Posterior, Sink
from paramfilter_streams.presence import Limits
from paramfilter_streams.records import Partition, Quarantined
from paramfilter_streams.residents import FleetResidents, Residents
from paramfilter_streams.store import Store
from paramfilter_streams.worker import Pace, Worker

__all__ = [
    "Event",
    "EventParser",
    "Fate",
    "FileLog",
    "FleetResidents",
    "Limits",
    "Log",
    "LogUnreachableError",
    "Message",
    "Output",
    "Pace",
    "Partition",
    "PipeLog",
    "Position",
    "Posterior",
    "Quarantined",
    "RefusedEvent",
    "Residents",
    "Rules",
    "Sink",
    "Store",
    "Worker",
]
