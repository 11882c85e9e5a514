"""Example models, each a function that returns a `StateSpaceModel`; `TRUTH` holds the parameters of its benchmark."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
