"""State is a table: a fleet as a pure function from Arrow tables of states and events to new states and outputs.

    changed, outputs, aside = table.advance(states, events)

An engine that moves tables (Spark, Ray, one process) owns placement, retries and storage; this package owns the
numbers. They depend on the seed, the name of a series and the numbers of its events, so a batch that is done again
gives the same bytes, wherever it is done.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
