"""From a log of events to posteriors, exactly once."""

from paramfilter_streams.events import Event, EventParser, RefusedEvent
from paramfilter_streams.logs import FileLog, Log, Message, PipeLog
from paramfilter_streams.ordering import Fate, Rules
from paramfilter_streams.residents import FleetResidents, Residents
from paramfilter_streams.store import Partition, Quarantined, Store
from paramfilter_streams.worker import Output, Pace, Posterior, Sink, Worker

__all__ = [
    "Event",
    "EventParser",
    "Fate",
    "FileLog",
    "FleetResidents",
    "Log",
    "Message",
    "Output",
    "Pace",
    "Partition",
    "PipeLog",
    "Posterior",
    "Quarantined",
    "RefusedEvent",
    "Residents",
    "Rules",
    "Sink",
    "Store",
    "Worker",
]
