"""The commands, each a few lines around the function that does the work.

A command imports that function when it is called, after its arguments have been checked. Help, mistakes and tab
completion therefore do not wait for JAX.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paramfilter.cli import FAILED, FOUND, names
from paramfilter.cli.rows import STANDARD_INPUT
from paramfilter.errors import DataError

if TYPE_CHECKING:
    import numpy as np

app = typer.Typer(
    name="paramfilter",
    help="Learn the static parameters of a state-space model while you filter.",
    epilog="A model is the name of a built-in one (sin, stochastic_volatility, ...) or module:object of your own.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str,
    typer.Argument(
        help="A built-in model, or module:object.", callback=names.known_model, autocompletion=names.complete_model
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]
Seed = Annotated[int, typer.Option(help="Of the random key.")]
Particles = Annotated[int | None, typer.Option(min=2, help="How many; unless given, a number that suits the filter.")]
FilterName = Annotated[
    str,
    typer.Option(
        "--filter",
        help=f"One of {', '.join(names.FILTERS)}.",
        callback=names.known_filter,
        autocompletion=names.complete_filter,
    ),
]
Values = Annotated[list[str] | None, typer.Option(help="name=value, or name=1,2,3; again for more.")]


@app.command()
def run(
    model: Model,
    data: Annotated[str, typer.Argument(help="CSV, JSON lines or Parquet; - for standard input.")] = STANDARD_INPUT,
    y: Annotated[list[str] | None, typer.Option(help="Column of the observation; again for more.")] = None,
    inputs: Annotated[list[str] | None, typer.Option(help="Column of an input, or name=column.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times, kept as labels.")] = None,
    particles: Particles = None,
    filter: FilterName = "auto",
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the result here: .nc or .zarr.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the parameters here: .png, .pdf or .svg.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the filter's state here.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Start from a state saved earlier.")] = None,
    as_json: AsJson = False,
) -> None:
    """Learn a model's parameters from data, in one pass. A pipe is followed line by line until it ends."""
    from paramfilter import plots
    from paramfilter.cli.learning import Settings, learn
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.cli.printing import aside

    if plot is not None and out is None:
        out = plot.with_suffix(".nc")
    columns = (tuple(y or ()), tuple(inputs or ()), time)
    learn(model_named(model).model, Settings(filter, particles, data, *columns, seed, out, save, resume, as_json))
    if plot is not None:
        plots.parameters(out).savefig(plot)
        aside.print(f"picture written to {plot}")


@app.command()
def simulate(
    model: Model,
    steps: Annotated[int, typer.Option(min=1, help="How many observations.")] = 500,
    theta: Values = None,
    seed: Seed = 0,
    states: Annotated[bool, typer.Option(help="Write the hidden states too.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write CSV here instead of to standard output.")] = None,
) -> None:
    """Draw observations from a model, as CSV that `run` reads."""
    from paramfilter.cli.models_by_name import model_named

    xs, ys, inputs = model_named(model).simulated(seed, _values(theta), steps)
    columns = _columns(inputs, "input") | _columns(ys, "y") | (_columns(xs, "x") if states else {})
    with out.open("w", newline="") if out is not None else sys.stdout as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


@app.command()
def plot(
    results: Annotated[list[str], typer.Argument(help="Saved results; label=path to name them in a comparison.")],
    kind: Annotated[
        str,
        typer.Option(
            help=f"One of {', '.join(names.PLOTS)}.", callback=names.known_plot, autocompletion=names.complete_plot
        ),
    ] = "parameters",
    out: Annotated[Path, typer.Option(help="Where to: .png, .pdf, .svg; .gif for an animation.")] = Path("picture.png"),
    truth: Values = None,
    title: Annotated[str | None, typer.Option(help="Stands on top.")] = None,
) -> None:
    """Draw a saved result, or several to compare."""
    from paramfilter import plots
    from paramfilter.cli.printing import aside
    from paramfilter.results import load_result

    labelled = [one.partition("=")[::2] if "=" in one else (Path(one).stem, one) for one in results]
    trees = {label: load_result(path) for label, path in labelled}
    drawn = next(iter(trees.values())) if len(trees) == 1 else trees
    figure = getattr(plots, kind)(drawn, truth=_values(truth) or None, title=title)
    figure.save(out) if kind == "animation" else figure.savefig(out)
    aside.print(f"picture written to {out}")


@app.command("inspect")
def inspect_(model: Model, as_json: AsJson = False) -> None:
    """Say how the parameters enter a model, and which belief suits it."""
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.cli.printing import print_json
    from paramfilter.inspect import inspect_model

    report = inspect_model(model_named(model).model)
    print_json(asdict(report)) if as_json else print(report)


@app.command()
def diagnose(result: Annotated[Path, typer.Argument(help="A saved result.")], as_json: AsJson = False) -> None:
    """Look at a saved result and say what is wrong, what it means and what to try. Exit code 3 if anything is."""
    from paramfilter.cli.printing import print_json
    from paramfilter.diagnostics import examine
    from paramfilter.results import load_result, record_of

    found = examine(record_of(load_result(result)))
    if as_json:
        findings = [{**asdict(one.code), "figures": one.figures} for one in found.findings]
        passed = [code.code for code in found.passed]
        not_judged = [{"code": one.code.code, "reason": one.reason} for one in found.not_judged]
        print_json({"heading": found.heading, "passed": passed, "findings": findings, "not_judged": not_judged})
    else:
        print(found)
    raise typer.Exit(0 if found.is_well else FOUND)


@app.command()
def explain(
    code: Annotated[
        str,
        typer.Argument(help="A code such as W03, or the number of an outcome.", autocompletion=names.complete_warning),
    ],
) -> None:
    """Put a warning or an outcome into words."""
    from paramfilter.diagnostics import explain

    print(explain(int(code) if code.isdigit() else code))


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check this machine: versions, devices, and whether the compiler computes what it should."""
    from paramfilter.cli import checkup
    from paramfilter.cli.printing import console, print_json, table_of

    wrong = checkup.wrong_kernels()
    if as_json:
        about = {"versions": checkup.versions(), "devices": checkup.devices(), "threads": checkup.threads()}
        print_json(about | {"wrong": wrong})
    else:
        console.print(table_of({name: {"version": one} for name, one in checkup.versions().items()}, first="package"))
        console.print(f"\ndevices: {', '.join(checkup.devices())}")
        console.print(f"threads: {checkup.threads()}")
        console.print(
            "compiler: all kernels agree with numpy" if not wrong else "\n".join(["compiler is wrong:", *wrong])
        )
    raise typer.Exit(FAILED if wrong else 0)


@app.command()
def bench(
    model: Model = "sin",
    particles: Particles = None,
    steps: Annotated[int, typer.Option(min=10, help="Length of the series.")] = 500,
    series: Annotated[int, typer.Option(min=1, help="Filters in the fleet.")] = 64,
    filter: FilterName = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure compiling, stepping and a small fleet on this machine."""
    from paramfilter.cli import checkup
    from paramfilter.cli.learning import make_filter
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.cli.printing import console, print_json, table_of

    found = model_named(model)
    _, ys, inputs = found.simulated(0, {}, steps)
    measured = make_filter(found.model, filter, particles)
    figures = checkup.speed_of(measured, ys, inputs, series)
    if as_json:
        print_json(figures)
    else:
        title = f"{found.model.name}, {measured.size} particles"
        console.print(table_of({name: {"": figure} for name, figure in figures.items()}, title))


@app.command()
def serve(
    configuration: Annotated[Path, typer.Argument(help="TOML file; the page “A running fleet” has an example.")],
) -> None:
    """Read events from a log, update one filter for each series, and serve posteriors over HTTP, until SIGTERM."""
    import logging
    from importlib.metadata import entry_points

    # The service stands on the library, and not the other way round: it is found by its name.
    (service,) = entry_points(group="paramfilter.services", name="serve")
    # INFO for paramfilter alone: JAX reports at INFO that it found no TPU.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    for name in ("paramfilter", "paramfilter_streams"):
        logging.getLogger(name).setLevel(logging.INFO)
    service.load()(configuration)


def _values(given: list[str] | None) -> dict[str, Any]:
    """Read `name=value` pairs."""
    import numpy as np

    found = {}
    for one in given or ():
        name, _, text = one.partition("=")
        try:
            numbers = [float(number) for number in text.split(",")]
        except ValueError:
            raise DataError(f"{one!r} should read name=number, or name=1,2,3 for a vector.") from None
        found[name] = numbers[0] if len(numbers) == 1 else np.array(numbers)
    return found


def _columns(tree: Any, root: str) -> dict[str, np.ndarray]:
    """Name each component of each leaf: y, or y1, y2, ... for a vector."""
    import numpy as np

    from paramfilter.results.tree import named

    columns = {}
    for name, leaf in named(tree, root).items():
        flat = np.asarray(leaf).reshape(len(leaf), -1)
        several = flat.shape[1] > 1
        columns |= {f"{name}{place + 1}" if several else name: flat[:, place] for place in range(flat.shape[1])}
    return columns
