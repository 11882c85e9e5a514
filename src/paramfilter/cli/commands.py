"""The commands, each a few lines around the function that does the work.

A command imports that function when it is called, after its arguments have been checked. Help, mistakes and tab
completion therefore do not wait for JAX.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from paramfilter.cli import names
from paramfilter.cli.rows import STANDARD_INPUT
from paramfilter.errors import DataError

app = typer.Typer(
    name="paramfilter",
    help="Learn the static parameters of a state-space model while you filter.",
    epilog="MODEL is a built-in model (sin, stochastic_volatility, ...) or your own, written as module:object.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
option, argument = typer.Option, typer.Argument


def _one_of(known: Sequence[str]) -> dict[str, Any]:
    """Return the settings of an option that takes a name from a list."""

    def callback(name: str) -> str:
        if name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}.")
        return name

    return {
        "help": f"{', '.join(known)}.",
        "callback": callback,
        "autocompletion": names.completing(known),
        "metavar": "NAME",
    }


OWN = "A built-in model, or your own as module:object."
Model = Annotated[str, argument(help=OWN, callback=names.known_model, autocompletion=names.complete_model)]
Code = Annotated[
    str, argument(help="A warning such as W06, or an outcome number.", autocompletion=names.complete_warning)
]
AsJson = Annotated[bool, option("--json", help="Print JSON.")]
Seed = Annotated[int, option(help="Random seed.")]
Particles = Annotated[int | None, option(min=2, help="Number of particles or nodes; by default chosen for the filter.")]
FilterName = Annotated[str, option("--filter", **_one_of(names.FILTERS))]
Kind = Annotated[str, option(**_one_of(names.PLOTS))]
Values = Annotated[
    list[str] | None, option(help="Parameter value as name=value, or name=1,2,3 for a vector; repeatable.")
]
Csv = Annotated[Path | None, option(help="Write CSV to this file instead of standard output.")]
Picture = "file: .png, .pdf or .svg."


@app.command()
def run(
    model: Model,
    data: Annotated[str, argument(help="CSV, JSON lines or Parquet file; - reads standard input.")] = STANDARD_INPUT,
    y: Annotated[list[str] | None, option(help="Column of the observations; repeatable for a vector.")] = None,
    inputs: Annotated[list[str] | None, option(help="Column of an input, or name=column; repeatable.")] = None,
    time: Annotated[str | None, option(help="Column of times, used as labels.")] = None,
    particles: Particles = None,
    filter: FilterName = "auto",
    seed: Seed = 0,
    out: Annotated[Path | None, option(help="Write the result to this .nc file.")] = None,
    plot: Annotated[Path | None, option(help=f"Plot the parameters to this {Picture}")] = None,
    save: Annotated[Path | None, option(help="Write the final state to this file.")] = None,
    resume: Annotated[Path | None, option(help="Continue from a state that --save wrote.")] = None,
    as_json: AsJson = False,
    strict: Annotated[
        bool, option("--strict", help="Stop at the first line that cannot be read, instead of skipping it.")
    ] = False,
) -> None:
    """Learn a model's parameters from a file, or from a pipe line by line until it ends, by Ctrl-C or SIGTERM too."""
    from paramfilter.cli.learning import learn, make_filter
    from paramfilter.cli.models_by_name import model_named

    out = plot.with_suffix(".nc") if plot is not None and out is None else out
    found, _ = model_named(model)
    files = {"result": out, "state": save, "from": resume}
    make = lambda: make_filter(found, filter, particles)
    learn(found, data, (y or (), inputs or (), time), make, files, seed, as_json, strict)
    if plot is not None:
        _draw(out, "parameters", plot)


@app.command()
def simulate(
    model: Model,
    steps: Annotated[int, option(min=1, help="Number of observations.")] = 500,
    theta: Values = None,
    seed: Seed = 0,
    states: Annotated[bool, option(help="Also write the hidden states.")] = False,
    out: Csv = None,
) -> None:
    """Simulate observations from a model as CSV that `run` reads."""
    import jax
    import jax.numpy as jnp

    from paramfilter.cli.models_by_name import model_named
    from paramfilter.model import simulate

    found, module = model_named(model)
    repeated = lambda num: None if found.example_inputs is None else found.inputs_at(jnp.arange(num))
    inputs = getattr(module, "inputs", repeated)(steps)
    first = jax.tree.map(lambda leaf: leaf[0], inputs)
    truth = getattr(module, "TRUTH", {}) | _values(theta)
    xs, ys = simulate(jax.random.key(seed), found, truth, steps, inputs, first)
    _write(_columns(inputs, "input") | _columns(ys, "y") | (_columns(xs, "x") if states else {}), out)


@app.command()
def forecast(
    model: Model,
    state: Annotated[Path, argument(help="A state that `run --save` wrote.")],
    steps: Annotated[int, option(min=1, help="Number of steps ahead.")] = 10,
    particles: Particles = None,
    filter: FilterName = "auto",
    seed: Seed = 0,
    out: Csv = None,
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

    own, _ = model_named(model)
    if own.example_inputs is not None:
        raise DataError(f"{own.name} needs inputs of the coming steps; forecast it in Python with pf.predict.")
    made = make_filter(own, filter, particles)
    draws = predict(jax.random.key(seed), made, restore(state, made), steps).y
    summaries = [partial(np.mean, axis=0), *(partial(np.quantile, q=level, axis=0) for level in LEVELS)]
    found = [_columns(jax.tree.map(summary, draws), "y") for summary in summaries]
    parts = dict(zip(("mean", *QUANTILES), found, strict=True))
    columns = {f"{name}_{part}": columns[name] for name in found[0] for part, columns in parts.items()}
    _write({"step": np.arange(1, steps + 1)} | columns, out)


@app.command()
def plot(
    results: Annotated[list[str], argument(help="Saved results; write label=path to compare several.")],
    kind: Kind = "parameters",
    out: Annotated[Path, option(help=f"Write this {Picture}")] = Path("picture.png"),
    truth: Values = None,
    title: Annotated[str | None, option(help="Figure title.")] = None,
) -> None:
    """Draw a saved result, or several to compare."""
    labelled: list[Any] = [one.partition("=")[::2] if "=" in one else (Path(one).stem, one) for one in results]
    drawn = labelled[0][1] if len(labelled) == 1 else dict(labelled)
    _draw(drawn, kind, out, truth=_values(truth) or None, title=title)


@app.command("inspect")
def inspect_(model: Model, as_json: AsJson = False) -> None:
    """Report how the parameters enter a model, which cannot be identified, and which filter to use."""
    from paramfilter.cli.models_by_name import model_named
    from paramfilter.cli.printing import print_json
    from paramfilter.inspect import inspect_model
    from paramfilter.presets import choose_algorithm

    found, _ = model_named(model)
    report, chosen = inspect_model(found), choose_algorithm(found)
    if as_json:
        print_json(asdict(report) | {"auto_filter": asdict(chosen)})
    else:
        print(f"{report}\n  auto_filter selects: {chosen.name}(model, {chosen.num_particles}): {chosen.reason}")


@app.command()
def diagnose(result: Annotated[Path, argument(help="A saved result.")], as_json: AsJson = False) -> None:
    """Check a saved result and explain each warning. The exit code is 3 if there is a warning."""
    from paramfilter.cli.printing import print_json
    from paramfilter.diagnostics import examine, record_of
    from paramfilter.results import load_result

    found = examine(record_of(load_result(result)))
    print_json(asdict(found)) if as_json else print(found)
    raise typer.Exit(0 if found.is_well else names.FOUND)


@app.command()
def explain(code: Code) -> None:
    """Explain a warning or an outcome."""
    from paramfilter.diagnostics import explain

    print(explain(int(code) if code.isdigit() else code))


@app.command()
def serve(
    configuration: Annotated[Path, argument(help="TOML file that describes the service; see the page One process.")],
) -> None:
    """Run a fleet as a service: events in, posteriors out, health and metrics over HTTP, until SIGTERM."""
    import logging

    # INFO for paramfilter alone: JAX reports at INFO that it found no TPU.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    for name in ("paramfilter", "paramfilter_service"):
        logging.getLogger(name).setLevel(logging.INFO)
    _service("serve")(configuration)


@app.command()
def backup(
    store: Annotated[Path, argument(help="The file of a service, which may be running.")],
    target: Annotated[Path, argument(help="A new file for the copy.")],
) -> None:
    """Copy the last commit of a service's store to a new file."""
    _service("backup")(store, target)


def _service(name: str) -> Any:
    """Find a function of the service by its name: the service stands on the library, and not the other way round."""
    from importlib.metadata import entry_points

    (found,) = entry_points(group="paramfilter.services", name=name)
    return found.load()


def _draw(results: Any, kind: str, out: Path, **options: Any) -> None:
    from paramfilter import plots
    from paramfilter.cli.printing import aside

    getattr(plots, kind)(results, **options).savefig(out)
    aside(f"plot written to {out}")


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


def _write(columns: dict[str, Any], out: Path | None) -> None:
    """Write columns as CSV, to a file or to standard output."""
    with out.open("w", newline="") if out is not None else nullcontext(sys.stdout) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def _columns(tree: Any, root: str) -> dict[str, Any]:
    """Name each component of each leaf: y, or y1, y2, ... for a vector; the first axis stays."""
    import numpy as np

    from paramfilter.results.tree import named

    columns = {}
    for name, leaf in named(tree, root).items():
        flat = np.asarray(leaf).reshape(len(leaf), -1)
        several = flat.shape[1] > 1
        columns |= {f"{name}{place + 1}" if several else name: flat[:, place] for place in range(flat.shape[1])}
    return columns
