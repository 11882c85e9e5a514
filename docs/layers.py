"""Draw the picture of the layers from the list that `lint-imports` checks: `python docs/layers.py`."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "_static" / "layers.svg"
SAID = (
    "the command",
    "what is made of a run; many series",
    "slow and trusted answers",
    "named algorithms; run, keep and judge a filter",
    "a particle fixes theta, and holds a filter for x",
    "what all filters share; a particle fixes x ...",
    "... and holds a belief about theta",
    "what a model is like",
    "the user's model and data",
    "arithmetic, errors, settings",
)
LEFT, WIDTH, HEIGHT, GAP, LETTER, MARGIN = 40, 560, 26, 10, 7.9, 12
"""Of rooms, in pixels; a letter of the monospaced font is so wide."""


def layers() -> list[list[str]]:
    """Return the modules of each layer, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    listed = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [re.findall(r"\w+", layer) for layer in listed]


def picture() -> str:
    """Return the picture as SVG."""
    parts, top = [], 34
    for modules, said in zip(layers(), SAID, strict=True):
        x, rows, first = LEFT + MARGIN, 1, top
        rooms = []
        for name in modules:
            wide = len(name) * LETTER + 14
            if x + wide > LEFT + WIDTH - MARGIN:
                x, rows = LEFT + MARGIN, rows + 1
            y = first + MARGIN / 2 + (rows - 1) * HEIGHT
            rooms.append(f'<text x="{x:.0f}" y="{y + 17:.0f}" class="room">{name}</text>')
            x += wide
        height = rows * HEIGHT + MARGIN
        parts.append(f'<rect x="{LEFT}" y="{first}" width="{WIDTH}" height="{height}" rx="6" class="layer"/>')
        parts += rooms
        parts.append(f'<text x="{LEFT + WIDTH + 14}" y="{first + height / 2 + 5:.0f}" class="said">{said}</text>')
        top += height + GAP
    style = (
        ".layer{fill:#f3e8f7;stroke:#7b3f98}.room{font:13px DejaVu Sans Mono,monospace;fill:#4c2260}"
        ".said{font:13px DejaVu Sans,sans-serif;fill:#374151}"
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 {top}" role="img">',
            f"<style>{style}</style>",
            f'<rect width="960" height="{top}" rx="10" fill="#ffffff"/>',
            '<text x="40" y="20" class="said">imports go down, never up</text>',
            f'<path d="M 20 34 V {top - 22}" stroke="#6b7280" stroke-width="2"/>',
            f'<path d="M 13 {top - 24} l 7 14 l 7 -14 Z" fill="#6b7280"/>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
