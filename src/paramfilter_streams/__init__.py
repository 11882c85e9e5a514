"""From a log of events to posteriors, exactly once."""

import lazy_loader

# `__init__.pyi` lists the public names. Each is imported when it is first used, so that a process that only copies a
# store (`snapshots`) does not wait for JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
