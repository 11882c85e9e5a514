"""From a log of events to posteriors, exactly once."""

from paramfilter.streaming.events import Event, EventParser, RefusedEvent
from paramfilter.streaming.logs import FileLog, Log, Message, PipeLog
from paramfilter.streaming.ordering import Fate, Rules
from paramfilter.streaming.residents import FleetResidents, Residents
from paramfilter.streaming.store import Partition, Quarantined, Store
from paramfilter.streaming.worker import Output, Pace, Posterior, Sink, Worker

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
