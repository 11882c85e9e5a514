"""The command line, called in this process as a user would call it: files, pipes, exit codes and texts."""

import io
import json
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest
from typer.testing import CliRunner

import paramfilter as pf
from paramfilter import cli
from paramfilter.cli import checkup, learning
from paramfilter.cli.commands import app
from paramfilter.cli.matching import Matching
from paramfilter.cli.models_by_name import model_named
from paramfilter.cli.rows import rows_of_lines
from paramfilter.running import history_row

LEARN = ["--filter", "sir", "--particles", "50"]
"""The filter that compiles fastest."""


PUSHED = """
import numpy as np, numpyro.distributions as dist, paramfilter as pf
TRUTH = {"phi": 0.6}
inputs = lambda num_steps: {"push": np.zeros(num_steps), "drag": np.zeros(num_steps)}
pushed = pf.StateSpaceModel(
    prior={"phi": dist.Normal(0.5, 0.3)},
    initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
    transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x + inputs["push"] - inputs["drag"], 0.5),
    observation=lambda theta, x, inputs: dist.Normal(x, 0.4),
    name="pushed",
    example_inputs={"push": 0.0, "drag": 0.0},
)
"""


def with_inputs(folder):
    """Write a model that reads inputs to a folder, and return the folder."""
    (folder / "pushed_model.py").write_text(PUSHED)
    return folder


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command; return its exit code, standard output and standard error."""
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # and put back what main replaces

    def run(*words, stdin=""):
        monkeypatch.setattr(sys, "argv", ["paramfilter", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin) if isinstance(stdin, str) else stdin)
        with pytest.raises(SystemExit) as end:
            cli.main()
            sys.exit(0)
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data and a result, made by the commands themselves."""
    place = tmp_path_factory.mktemp("cli")
    runner = CliRunner()
    made = runner.invoke(app, ["simulate", "sin", "--steps", "60", "--out", str(place / "data.csv")])
    learned = runner.invoke(app, ["run", "sin", str(place / "data.csv"), "--out", str(place / "run.nc"), *LEARN])
    assert (made.exit_code, learned.exit_code) == (0, 0), (made.output, learned.output)
    return place


def test_run_writes_a_result_that_the_other_commands_read(call, folder, tmp_path):
    tree = pf.results.load_result(folder / "run.nc")
    ys = np.loadtxt(folder / "data.csv", skiprows=1)
    assert np.array_equal(tree["observed_data"]["y"], ys)
    code, _, said = call("plot", folder / "run.nc", f"again={folder / 'run.nc'}", "--out", tmp_path / "both.png")
    assert code == 0 and (tmp_path / "both.png").stat().st_size > 10_000, said
    code, out, _ = call("diagnose", folder / "run.nc")
    assert code == cli.FOUND and "few paths are left" in out  # a plain particle filter, and it shows
    code, out, _ = call("diagnose", folder / "run.nc", "--json")
    said = json.loads(out)
    assert "W02" in [finding["code"] for finding in said["findings"]] and "W06" in said["passed"]
    assert {"code": "W03", "reason": "one island"} in said["not_judged"]


def test_a_pipe_is_followed_line_by_line_and_ends_where_the_file_does(call, folder):
    code, out, _ = call("run", "sin", "--json", *LEARN, stdin=(folder / "data.csv").read_text())
    *lines, last = map(json.loads, out.splitlines())
    assert code == 0
    assert [line["t"] for line in lines] == list(range(1, 61))
    _, from_file, _ = call("run", "sin", folder / "data.csv", "--json", *LEARN)
    assert last == json.loads(from_file)
    assert lines[-1]["mean"]["theta"] == pytest.approx(last["posterior"]["theta"]["mean"], rel=1e-5)


def test_an_endless_pipe_fills_no_memory(call, folder, monkeypatch):
    made, most = [], 0

    def watched(*args):
        nonlocal most
        history = history_row(*args)
        made.append(weakref.ref(history))
        most = max(most, sum(one() is not None for one in made))
        return history

    monkeypatch.setattr(learning, "history_row", watched)
    call("run", "sin", "--json", *LEARN, stdin=(folder / "data.csv").read_text())
    assert len(made) == 60 and most <= 2  # the latest, and the one before it
    call("run", "sin", *LEARN, stdin=(folder / "data.csv").read_text())
    assert len(made) == 60  # nobody asked for what it would tell


def test_a_pipe_that_is_interrupted_keeps_what_was_learned(call, folder, tmp_path):
    head = (folder / "data.csv").read_text().splitlines()[:31]

    def interrupted():
        yield from head
        raise KeyboardInterrupt

    code, _, said = call("run", "sin", "--out", tmp_path / "part.nc", *LEARN, stdin=interrupted())
    assert code == 0, said
    assert pf.results.load_result(tmp_path / "part.nc").attrs["num_observations"] == 30
    assert np.array_equal(pf.results.load_result(tmp_path / "part.nc")["observed_data"]["y"], np.float64(head[1:]))


def test_an_interrupt_before_the_first_row_ends_with_a_sentence(call, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(pf.ParticleFilter, "step", interrupt)
    code, out, said = call("run", "sin", *LEARN, stdin="0.5\n")
    assert (code, out) == (cli.FAILED, "")
    assert said == "paramfilter: stopped before the first row was taken in, so there is nothing to show or to write.\n"


def test_a_stream_goes_on_where_it_was_saved(call, folder, tmp_path):
    whole = (folder / "data.csv").read_text().splitlines()
    first, second = "\n".join(whole[:31]), "\n".join(whole[31:])
    call("run", "sin", "--save", tmp_path / "half.safetensors", *LEARN, stdin=first)
    code, out, _ = call("run", "sin", "--json", "--resume", tmp_path / "half.safetensors", *LEARN, stdin=second)
    _, at_once, _ = call("run", "sin", folder / "data.csv", "--json", *LEARN)
    assert code == 0
    assert json.loads(out.splitlines()[-1])["posterior"] == json.loads(at_once)["posterior"]


def test_a_saved_state_is_forecast_as_csv(call, folder, tmp_path):
    call("run", "sin", folder / "data.csv", "--save", tmp_path / "state.safetensors", *LEARN)
    code, out, said = call("forecast", "sin", tmp_path / "state.safetensors", "--steps", "3", *LEARN)
    heading, *rows = out.splitlines()
    assert code == 0 and heading == "step,y_mean,y_q05,y_q25,y_q50,y_q75,y_q95", said
    numbers = np.array([row.split(",") for row in rows], float)
    assert numbers[:, 0].tolist() == [1, 2, 3] and np.all(np.diff(numbers[:, 2:], axis=1) > 0)


def test_warnings_do_not_name_our_files(call):
    call("explain", "W03")
    assert warnings.formatwarning("times", UserWarning, "a.py", 3) == "paramfilter: warning: times\n"


def test_inspect_recommends_what_auto_filter_takes(call):
    chosen = pf.auto_filter(pf.models.linear_gaussian()).choice
    code, out, _ = call("inspect", "linear_gaussian")
    assert code == 0 and f"auto_filter selects: {chosen}" in out
    assert json.loads(call("inspect", "linear_gaussian", "--json")[1])["auto_filter"]["name"] == "node_filter"


def test_tables_are_for_people(call, folder):
    code, out, _ = call("run", "sin", folder / "data.csv", *LEARN)
    assert code == 0
    assert out.splitlines()[0].startswith("sin: 60 observations, 50 particles, log evidence")
    assert "mean" in out and "q95" in out


def test_explain_and_help(call):
    assert "islands disagree" in call("explain", "W03")[1]
    assert "W06" in call("explain", "2")[1]
    assert "Learn a model's parameters" in call("run", "--help")[1]


def test_doctor_finds_this_machine_in_order(call):
    code, out, _ = call("doctor", "--json")
    found = json.loads(out)
    assert code == 0 and found["wrong"] == [] and found["devices"]
    assert found["versions"]["jax"] == __import__("jax").__version__


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"OPENBLAS_NUM_THREADS": "1"}, "in one thread"), ({"OMP_NUM_THREADS": "4"}, "take 4 threads"), ({}, "take all")],
)
def test_doctor_tells_of_threads(monkeypatch, limits, words):
    for name in checkup.THREAD_LIMITS:
        monkeypatch.delenv(name, raising=False)
    for name, limit in limits.items():
        monkeypatch.setenv(name, limit)
    assert words in checkup.threads()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["sin", "pushed_model:pushed"])  # the second reads inputs
def test_bench_counts_steps(call, model, monkeypatch, tmp_path):
    monkeypatch.chdir(with_inputs(tmp_path))
    code, out, said = call("bench", model, "--steps", "20", "--series", "2", "--json", *LEARN)
    assert code == 0, said
    assert json.loads(out)["steps a second"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "sinn", "data.csv"), "no model 'sinn'; did you mean sin?"),
        (("run", "sin", "nowhere.csv"), "there is no file nowhere.csv; use - for standard input."),
        (("run", "sin", "data.csv", "--y", "level"), 'no column "level"; they have'),
        (("run", "tracking", "data.csv"), "has 2 components, so name 2 columns with --y"),
        (("run", "sin", "data.csv", "--filter", "kalman"), "no filter 'kalman'; choose one of"),
        (("run", "json:loads", "data.csv"), "must be a paramfilter.StateSpaceModel"),
        (("run", "no_such_module:model", "data.csv"), "there is no module 'no_such_module' in"),
        (("plot", "nowhere.nc"), "there is no result at nowhere.nc"),
        (("plot", "run.nc", "--kind", "pie"), "no plot 'pie'; choose one of"),
        (("simulate", "sin", "--theta", "theta"), "Write name=number"),
        (("simulate", "sin", "--theta", "phi=1"), "unknown: ['phi']"),
        (("explain", "W99"), "no warning 'W99'"),
        (("serve", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_a_mistake_ends_with_a_sentence_and_code_1(call, folder, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    code, _, said = call(*words)
    assert code == cli.FAILED
    assert said.startswith("paramfilter: ") and message in said
    assert "Traceback" not in said


def test_an_unknown_option_ends_with_code_2(call):
    assert call("run", "sin", "--particle", "5")[0] == cli.MISUSED


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,b", "1,2", "3"], "line 3 has 1 cells and should have 2"),
        (['{"y": 1}', "{"], "line 2 is not JSON"),
        (["[" * 100_000], "line 1 is not JSON"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(lines, message):
    with pytest.raises(pf.errors.DataError, match=message):
        list(rows_of_lines(lines))


def test_columns_find_their_place_in_a_model_with_named_inputs(monkeypatch, tmp_path):
    monkeypatch.chdir(with_inputs(tmp_path))
    model = model_named("pushed_model:pushed").model
    names = list(model.example_inputs)
    matching = Matching(model, [*names, "day", "flow"], time="day")
    y, inputs = matching.one({**dict.fromkeys(names, 0.5), "day": "mon", "flow": 2.0})
    assert y == 2.0 and set(inputs) == set(names)
    with pytest.raises(pf.errors.DataError, match="the data have no such column"):
        Matching(model, ["flow"])


def test_a_model_of_ones_own_is_found_in_this_folder(monkeypatch, tmp_path):
    (tmp_path / "tank_model.py").write_text("from paramfilter.models import sin as tank\n")
    monkeypatch.chdir(tmp_path)
    assert model_named("tank_model:tank").model.name == "sin"
    with pytest.raises(pf.errors.ModelError, match="Did you mean tank_model:tank"):
        model_named("tank_model:tonk")


def test_without_its_packages_the_command_names_the_extra(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import paramfilter.cli; paramfilter.cli.main()"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 1
    assert 'pip install "paramfilter[cli]"' in ended.stderr
