"""The example configurations of the repository are ones that the service takes."""

import re
from pathlib import Path

import msgspec

from paramfilter_service.configuration import Configuration

ROOT = Path(__file__).parents[2]


def read(text):
    return msgspec.toml.decode(text, type=Configuration)


def test_the_configurations_of_page_and_unit_are_read(tmp_path):
    page = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "serve.md").read_text(), re.DOTALL)
    assert page is not None
    for text in (page[1], (ROOT / "deploy" / "fleet.toml").read_text()):
        configuration = read(re.sub(r'path = "(.*)"', rf'path = "{tmp_path}"', text))
        assert configuration.filter.options == {"num_nodes": 64, "num_kept": 512}
