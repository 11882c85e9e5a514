"""Fetch what the servers are made of: `python -m tests.servers.fetch`; it needs Java 17, mvn, go and uv.

Jars come from Maven Central, the S3 server from the Go module proxy, Python packages from PyPI, each through its normal
client and the registry that the client is set up for. They go to the folder that PARAMFILTER_SERVERS names, or to a
folder of the user's cache; what is there is not fetched again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HOME = Path(os.environ.get("PARAMFILTER_SERVERS", Path.home() / ".cache" / "paramfilter-servers"))
S3_SERVER = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
JARS = ("kafka", "spark", "s3")
"""Profiles of pom.xml: the broker's jars; Spark's for Kafka and Delta; Spark's for checkpoints on S3, 560 MB."""


def jars(profile: str) -> list[Path]:
    """Return the jars of a profile that are here."""
    return sorted((HOME / "jars" / profile).glob("*.jar"))


def interpreter() -> Path:
    """Return the interpreter of the environment that requirements.lock describes."""
    return HOME / "env" / "bin" / "python"


def s3_server() -> Path:
    """Return the S3 server's program."""
    return HOME / "bin" / "versitygw"


def missing(*profiles: str) -> str:
    """Say what is not here of what a test needs; nothing if all is."""
    found = {f"jars of {one}": bool(jars(one)) for one in profiles} | {"java": shutil.which("java") is not None}
    lacking = [name for name, is_here in found.items() if not is_here]
    return f"NOT TESTED, no {' and no '.join(lacking)} here: python -m tests.servers.fetch" if lacking else ""


def main() -> None:
    """Fetch what is not here yet."""
    for profile in (one for one in sys.argv[1:] or JARS if not jars(one)):
        where = [f"-DoutputDirectory={HOME / 'jars' / profile}", "-DincludeScope=runtime"]
        command = ["mvn", "-B", "-q", "-f", HERE / "pom.xml", "-P", profile, "dependency:copy-dependencies", *where]
        subprocess.run(command, check=True)
    if not s3_server().exists():
        go = os.environ | {"GOBIN": str(s3_server().parent)}
        subprocess.run(["go", "install", S3_SERVER], check=True, env=go)
    if not interpreter().exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, HOME / "env"], check=True)
        install = ["uv", "pip", "sync", "--quiet", "--require-hashes", "--python", interpreter()]
        subprocess.run([*install, HERE / "requirements.lock"], check=True)


if __name__ == "__main__":
    main()
