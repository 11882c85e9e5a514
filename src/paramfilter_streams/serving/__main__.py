"""Run a fleet from a configuration file: `python -m paramfilter_streams.serving CONFIG.toml`."""

import logging
import sys

from paramfilter_streams.serving.service import serve

if __name__ == "__main__":
    # INFO for paramfilter alone: JAX reports at INFO that it found no TPU.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    for name in ("paramfilter", "paramfilter_streams"):
        logging.getLogger(name).setLevel(logging.INFO)
    serve(sys.argv[1])
