"""Run a fleet from a configuration file: `python -m paramfilter_streams.serving CONFIG.toml`."""

import logging
import sys

from paramfilter_streams.serving.service import serve

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    serve(sys.argv[1])
