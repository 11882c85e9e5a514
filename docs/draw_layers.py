"""Draw the layers from the list in pyproject.toml: `python docs/draw_layers.py` writes `docs/_static/layers.svg`."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CAPTIONS = (
    "the command",
    "pictures",
    "labelled arrays, files and tables of what was found",
    "trusted answers; a look at a run; calibration",
    "many series; one filter over many devices",
    "go through data; save; warm starts; named algorithms",
    "what suits a model",
    "values of theta, each with a filter for the state",
    "what all filters share; the loop of beliefs",
    "what a particle believes, how it moves, who survives",
    "draw at constant cost; how theta enters a model",
    "ready models; try a model first; Kalman filters",
    "StateSpaceModel; its Gaussian form",
    "the user's functions, with explanations",
    "names, supports, bijectors; trees of laws",
    "parameters that are correlated a priori",
    "mathematics; heavy tails; few rows; tables",
    "sums, small systems, log-weights",
    "what happened; what is asked of arguments and machines",
    "what is raised before anything is compiled",
    "names for what flows through signatures",
)
VIOLET, ORANGE, YELLOW = ("#f3e8f7", "#7b3f98"), ("#fde9d3", "#b45309"), ("#fdf3d7", "#a16207")
GREEN, BLUE = ("#e2f0e6", "#2f6f44"), ("#e3edf7", "#2b5c8a")
COLOURS = [VIOLET] * 6 + [ORANGE] * 3 + [YELLOW] * 2 + [GREEN] * 5 + [BLUE] * 5
LEFT, WIDTH, GAP, HEIGHT, STEP, TOP = 40, 520, 8, 48, 56, 30
MONO = "DejaVu Sans Mono, monospace"


def layers() -> list[list[str]]:
    """Return the modules of each row, from the top."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [[name.strip().strip("()") for name in row.split("|")] for row in rows]


def picture(rows: list[list[str]]) -> str:
    """Return the picture as SVG."""
    bottom = TOP + STEP * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 {bottom + 16}" width="940" height="{bottom + 16}" '
        'role="img" aria-labelledby="title desc" font-family="DejaVu Sans, Verdana, sans-serif">',
        '  <title id="title">The layers of paramfilter</title>',
        f'  <desc id="desc">{len(rows)} rows of modules, {rows[0][0]} at the top and {rows[-1][0]} at the bottom. A '
        "row may import only from rows below it.</desc>",
        f'  <rect width="940" height="{bottom + 16}" rx="10" fill="#ffffff"/>',
        f'  <path d="M 20 {TOP} V {bottom - 14}" stroke="#6b7280" stroke-width="2"/>',
        f'  <path d="M 13 {bottom - 20} L 20 {bottom - 4} L 27 {bottom - 20} Z" fill="#6b7280"/>',
        '  <text x="40" y="18" font-size="13" fill="#4b5563">imports go down, never up or sideways</text>',
    ]
    for number, (names, caption, (fill, ink)) in enumerate(zip(rows, CAPTIONS, COLOURS, strict=True)):
        y, width = TOP + STEP * number, (WIDTH + GAP) / len(names) - GAP
        for place, name in enumerate(names):
            x, size = LEFT + place * (width + GAP), min(15.0, width / len(name) / 0.66)
            lines += [
                f'  <rect x="{x:g}" y="{y}" width="{width:g}" height="{HEIGHT}" rx="6" fill="{fill}" stroke="{ink}"/>',
                f'  <text x="{x + width / 2:g}" y="{y + 29}" font-size="{size:.1f}" text-anchor="middle" fill="{ink}" '
                f'font-family="{MONO}">{name}</text>',
            ]
        lines.append(f'  <text x="576" y="{y + 29}" font-size="13" fill="#374151">{caption}</text>')
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    (ROOT / "docs" / "_static" / "layers.svg").write_text(picture(layers()))
