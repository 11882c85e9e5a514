"""The commands, each a few lines around the function that does the work.

A command imports that function when it is called, after its arguments have been checked. Help, mistakes and tab
completion therefore do not wait for JAX.
"""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paramfilter.cli import names
from paramfilter.cli.rows import STANDARD_INPUT
from paramfilter.errors import DataError

if TYPE_CHECKING:
    import numpy as np

app = typer.Typer(
    name="paramfilter",
    help="Learn the static parameters of a state-space model while you filter.",
    epilog="MODEL is a built-in model (sin, stochastic_volatility, ...) or your own, written as module:object.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Model = Annotated[
    str,
    typer.Argument(
        help="A built-in model, or your own as module:object.",
        callback=names.known_model,
        autocompletion=names.complete_model,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Particles = Annotated[
    int | None, typer.Option(min=2, help="Number of particles or nodes; by default chosen for the filter.")
]
FilterName = Annotated[names.Filters, typer.Option("--filter", help=f"{', '.join(names.Filters)}.", metavar="NAME")]
AUTO = names.Filters("auto")
Values = Annotated[
    list[str] | None, typer.Option(help="Parameter value as name=value, or name=1,2,3 for a vector; repeatable.")
]


@app.command()
def run(
    model: Model,
    data: Annotated[
        str, typer.Argument(help="CSV, JSON lines or Parquet file; - reads standard input.")
    ] = STANDARD_INPUT,
    y: Annotated[list[str] | None, typer.Option(help="Column of the observations; repeatable for a vector.")] = None,
    inputs: Annotated[list[str] | None, typer.Option(help="Column of an input, or name=column; repeatable.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times, used as labels.")] = None,
    particles: Particles = None,
    filter: FilterName = AUTO,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write the result to this .nc file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot the parameters to this .png, .pdf or .svg file.")] = None,
    save: Annotated[Path | None, typer.Option(help="Write the final state to this file.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue from a state that --save wrote.")] = None,
    as_json: AsJson = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first line that cannot be read, instead of skipping it.")
    ] = False,
) -> None:
    """Learn a model's parameters from a file, or from a pipe line by line until it ends, by Ctrl-C or SIGTERM too."""
    from paramfilter import plots
    from paramfilter.cli.learning import learn, make_filter
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.cli.printing import aside

    if plot is not None and out is None:
        out = plot.with_suffix(".nc")
    columns, found = (tuple(y or ()), tuple(inputs or ()), time), model_named(model).model
    files = {"out": out, "save": save, "resume": resume}
    make = lambda: make_filter(found, filter, particles)
    learn(found, data, columns, make, seed=seed, **files, as_json=as_json, is_strict=strict)
    if plot is not None:
        plots.parameters(out).savefig(plot)
        aside.print(f"plot written to {plot}")


@app.command()
def simulate(
    model: Model,
    steps: Annotated[int, typer.Option(min=1, help="Number of observations.")] = 500,
    theta: Values = None,
    seed: Seed = 0,
    states: Annotated[bool, typer.Option(help="Also write the hidden states.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write CSV to this file instead of standard output.")] = None,
) -> None:
    """Simulate observations from a model as CSV that `run` reads."""
    from paramfilter.cli.models_by_name import model_named

    xs, ys, inputs = model_named(model).simulated(seed, _values(theta), steps)
    columns = _columns(inputs, "input") | _columns(ys, "y") | (_columns(xs, "x") if states else {})
    _write({name: column.tolist() for name, column in columns.items()}, out)


@app.command()
def forecast(
    model: Model,
    state: Annotated[Path, typer.Argument(help="A state that `run --save` wrote.")],
    steps: Annotated[int, typer.Option(min=1, help="Number of steps ahead.")] = 10,
    particles: Particles = None,
    filter: FilterName = AUTO,
    seed: Seed = 0,
    out: Annotated[Path | None, typer.Option(help="Write CSV to this file instead of standard output.")] = None,
) -> None:
    """Forecast observations from a saved state as CSV: mean and quantiles of each step ahead."""
    import jax
    import numpy as np

    from paramfilter.checkpoint import restore
    from paramfilter.cli.learning import make_filter
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.numerics.quantiles import LEVELS
    from paramfilter.results.tree import QUANTILES
    from paramfilter.running import predict

    found = model_named(model).model
    if found.example_inputs is not None:
        raise DataError(f"{found.name} needs inputs of the coming steps; forecast it in Python with pf.predict.")
    made = make_filter(found, filter, particles)
    drawn = predict(jax.random.key(seed), made, restore(state, made), steps).y
    rows: dict[str, list[Any]] = {"step": list(range(1, steps + 1))}
    of = {"mean": lambda draws: np.mean(draws, axis=0)}
    of |= {part: lambda draws, q=q: np.quantile(draws, q, axis=0) for part, q in zip(QUANTILES, LEVELS, strict=True)}
    by_part = {part: _columns(jax.tree.map(summary, drawn), "y") for part, summary in of.items()}
    for name in by_part["mean"]:
        rows |= {f"{name}_{part}": columns[name].tolist() for part, columns in by_part.items()}
    _write(rows, out)


@app.command()
def plot(
    results: Annotated[list[str], typer.Argument(help="Saved results; write label=path to compare several.")],
    kind: Annotated[names.Plots, typer.Option(help=f"{', '.join(names.Plots)}.", metavar="NAME")] = names.Plots(
        "parameters"
    ),
    out: Annotated[Path, typer.Option(help="File to write: .png, .pdf or .svg.")] = Path("picture.png"),
    truth: Values = None,
    title: Annotated[str | None, typer.Option(help="Figure title.")] = None,
) -> None:
    """Draw a saved result, or several to compare."""
    from paramfilter import plots
    from paramfilter.cli.printing import aside
    from paramfilter.results import load_result

    labelled = [one.partition("=")[::2] if "=" in one else (Path(one).stem, one) for one in results]
    trees = {label: load_result(path) for label, path in labelled}
    drawn = next(iter(trees.values())) if len(trees) == 1 else trees
    figure = getattr(plots, kind)(drawn, truth=_values(truth) or None, title=title)
    figure.savefig(out)
    aside.print(f"plot written to {out}")


@app.command("inspect")
def inspect_(model: Model, as_json: AsJson = False) -> None:
    """Report how the parameters enter a model, which cannot be identified, and which filter to use."""
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.cli.printing import print_json
    from paramfilter.inspect import inspect_model
    from paramfilter.presets import choose_algorithm

    found = model_named(model).model
    report, chosen = inspect_model(found), choose_algorithm(found)
    if as_json:
        print_json(asdict(report) | {"auto_filter": asdict(chosen)})
    else:
        print(f"{report}\n  auto_filter selects: {chosen.name}(model, {chosen.num_particles}): {chosen.reason}")


@app.command()
def diagnose(result: Annotated[Path, typer.Argument(help="A saved result.")], as_json: AsJson = False) -> None:
    """Check a saved result and explain each warning. The exit code is 3 if there is a warning."""
    from paramfilter.cli.printing import print_json
    from paramfilter.diagnostics import examine
    from paramfilter.diagnostics.saved import record_of
    from paramfilter.results import load_result

    found = examine(record_of(load_result(result)))
    if as_json:
        findings = [{**asdict(one.code), "figures": one.figures} for one in found.findings]
        passed = [code.code for code in found.passed]
        not_judged = [{"code": one.code.code, "reason": one.reason} for one in found.not_judged]
        print_json({"heading": found.heading, "passed": passed, "findings": findings, "not_judged": not_judged})
    else:
        print(found)
    raise typer.Exit(0 if found.is_well else names.FOUND)


@app.command()
def explain(
    code: Annotated[
        str,
        typer.Argument(help="A warning such as W06, or an outcome number.", autocompletion=names.complete_warning),
    ],
) -> None:
    """Explain a warning or an outcome."""
    from paramfilter.diagnostics import explain

    print(explain(int(code) if code.isdigit() else code))


@app.command()
def doctor() -> None:
    """Print what a report of a problem needs: versions, devices, and where compiled code is kept."""
    from importlib.metadata import version

    import jax

    from paramfilter import config

    config.use_compilation_cache()
    for name in ("paramfilter", "jax", "jaxlib", "numpyro", "numpy", "scipy"):
        print(f"{name} {version(name)}")
    print(f"devices: {', '.join(f'{device.platform}:{device.id} {device.device_kind}' for device in jax.devices())}")
    print(f"compiled code: {jax.config.jax_compilation_cache_dir or 'not kept'}")


@app.command()
def serve(
    configuration: Annotated[
        Path, typer.Argument(help="TOML file that describes the service; see the page on running a fleet.")
    ],
) -> None:
    """Run a fleet as a service: events in, posteriors out, health and metrics over HTTP, until SIGTERM."""
    import logging
    from importlib.metadata import entry_points

    # The service stands on the library, and not the other way round: it is found by its name.
    (service,) = entry_points(group="paramfilter.services", name="serve")
    # INFO for paramfilter alone: JAX reports at INFO that it found no TPU.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    for name in ("paramfilter", "paramfilter_streams"):
        logging.getLogger(name).setLevel(logging.INFO)
    service.load()(configuration)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
)
def streams(context: typer.Context) -> None:
    """Inspect, reset, back up and restore the store of a service: see `paramfilter streams --help`."""
    from importlib.metadata import entry_points

    (operators,) = entry_points(group="paramfilter.services", name="streams")
    operators.load()(context.args)


def _values(given: list[str] | None) -> dict[str, Any]:
    """Read `name=value` pairs."""
    import numpy as np

    found = {}
    for one in given or ():
        name, _, text = one.partition("=")
        try:
            numbers = [float(number) for number in text.split(",")]
        except ValueError:
            raise DataError(
                f"{one!r} is not a parameter value. Write name=number, or name=1,2,3 for a vector."
            ) from None
        found[name] = numbers[0] if len(numbers) == 1 else np.array(numbers)
    return found


def _write(columns: dict[str, list[Any]], out: Path | None) -> None:
    """Write columns as CSV, to a file or to standard output."""
    with out.open("w", newline="") if out is not None else nullcontext(sys.stdout) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _columns(tree: Any, root: str) -> dict[str, np.ndarray]:
    """Name each component of each leaf: y, or y1, y2, ... for a vector; the first axis stays."""
    import numpy as np

    from paramfilter.results.tree import named

    columns = {}
    for name, leaf in named(tree, root).items():
        flat = np.asarray(leaf).reshape(len(leaf), -1)
        several = flat.shape[1] > 1
        columns |= {f"{name}{place + 1}" if several else name: flat[:, place] for place in range(flat.shape[1])}
    return columns
