"""A running fleet over HTTP."""

from paramfilter.serving.configuration import Configuration, Http, read_configuration
from paramfilter.serving.front import make_front
from paramfilter.serving.metrics import Delays, metrics_of
from paramfilter.serving.service import serve

__all__ = ["Configuration", "Delays", "Http", "make_front", "metrics_of", "read_configuration", "serve"]
