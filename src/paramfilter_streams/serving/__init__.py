"""A running fleet over HTTP."""

from paramfilter_streams.serving.configuration import Configuration, Http, read_configuration
from paramfilter_streams.serving.front import make_front
from paramfilter_streams.serving.metrics import Delays, metrics_of
from paramfilter_streams.serving.service import serve

__all__ = ["Configuration", "Delays", "Http", "make_front", "metrics_of", "read_configuration", "serve"]
