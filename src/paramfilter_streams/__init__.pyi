"""The public names of the package, and where each comes from."""

from .events import Event as Event
from .events import EventParser as EventParser
from .events import RefusedEvent as RefusedEvent
from .file_log import FileLog as FileLog
from .logs import Log as Log
from .logs import LogUnreachableError as LogUnreachableError
from .logs import Message as Message
from .logs import PipeLog as PipeLog
from .logs import Position as Position
from .ordering import Fate as Fate
from .ordering import Rules as Rules
from .posteriors import Output as Output
from .posteriors import Posterior as Posterior
from .posteriors import Sink as Sink
from .presence import Limits as Limits
from .records import Partition as Partition
from .records import Quarantined as Quarantined
from .residents import FleetResidents as FleetResidents
from .residents import Residents as Residents
from .store import Store as Store
from .worker import Pace as Pace
from .worker import Worker as Worker
