"""Run a fleet from a configuration file: `python -m paramfilter.serving CONFIG.toml`."""

import logging
import sys

from paramfilter.serving.service import serve

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    serve(sys.argv[1])
