"""A running fleet over HTTP."""

from paramfilter_streams.serving.configuration import Configuration, Http, read_configuration
from paramfilter_streams.serving.front import make_front
from paramfilter_streams.serving.metrics import Metrics
from paramfilter_streams.serving.service import serve

__all__ = ["Configuration", "Http", "Metrics", "make_front", "read_configuration", "serve"]
