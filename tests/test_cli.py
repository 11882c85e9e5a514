"""The command line, called in this process as a user would call it: files, pipes, exit codes and texts."""

import io
import json
import signal
import subprocess
import sys
import warnings
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import paramfilter as pf
from paramfilter import cli
from paramfilter.cli import learning, names
from paramfilter.cli.commands import app
from paramfilter.cli.matching import Matching
from paramfilter.cli.models_by_name import model_named
from paramfilter.cli.rows import each, read_lines

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
        stdin = stdin.encode() if isinstance(stdin, str) else stdin
        lines = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=lines))
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
    assert code == names.FOUND and "distinct values of theta" in out  # a plain particle filter, and it shows
    code, out, _ = call("diagnose", folder / "run.nc", "--json")
    said = json.loads(out)
    assert "W01" in [one["code"]["code"] for one in said["findings"]]
    assert "W06" in [code["code"] for code in said["passed"]]
    assert {"W12": "no OutlierGate"}.items() <= {
        one["code"]["code"]: one["reason"] for one in said["not_judged"]
    }.items()


def test_a_pipe_is_followed_line_by_line_and_ends_where_the_file_does(call, folder):
    code, out, _ = call("run", "sin", "--json", *LEARN, stdin=(folder / "data.csv").read_text())
    *lines, last = map(json.loads, out.splitlines())
    assert code == 0
    assert [line["t"] for line in lines] == list(range(1, 61))
    _, from_file, _ = call("run", "sin", folder / "data.csv", "--json", *LEARN)
    assert last == json.loads(from_file)
    assert lines[-1]["mean"]["theta"] == pytest.approx(last["posterior"]["theta"]["mean"], rel=1e-5)


@pytest.fixture
def fails(monkeypatch):
    """Let a run fail from some time on."""

    def after(time, error):
        def run(filter, state, *rest, **options):
            if state.time == time:
                raise error
            return pf.run(filter, state, *rest, **options)

        monkeypatch.setattr(learning, "run", run)

    return after


def test_an_endless_pipe_fills_no_memory(call, folder, monkeypatch):
    made, most = [], 0

    def watched(*args, **options):
        nonlocal most
        state, history = pf.run(*args, **options)
        made.append(weakref.ref(history))
        most = max(most, sum(one() is not None for one in made))
        return state, history

    monkeypatch.setattr(learning, "run", watched)
    call("run", "sin", "--json", *LEARN, stdin=(folder / "data.csv").read_text())
    assert len(made) == 60 and most <= 2  # the latest, and the one before it


def test_a_pipe_that_is_interrupted_keeps_what_was_learned(call, folder, tmp_path):
    head = (folder / "data.csv").read_bytes().splitlines()[:31]

    def interrupted():
        yield from head
        raise KeyboardInterrupt

    code, _, said = call("run", "sin", "--out", tmp_path / "part.nc", *LEARN, stdin=interrupted())
    assert code == 0, said
    assert pf.results.load_result(tmp_path / "part.nc").attrs["num_observations"] == 30
    assert np.array_equal(pf.results.load_result(tmp_path / "part.nc")["observed_data"]["y"], np.float64(head[1:]))


def test_an_interrupt_before_the_first_row_ends_with_a_sentence(call, fails):
    fails(0, KeyboardInterrupt())
    code, out, said = call("run", "sin", *LEARN, stdin="0.5\n")
    assert (code, out) == (names.FAILED, "")
    assert said == "paramfilter: no row was taken in, so there is nothing to show or to write.\n"


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
    call("explain", "W06")
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
    assert "could explain an observation" in call("explain", "w06")[1]
    assert "W06" in call("explain", "2")[1]
    assert "Learn a model's parameters" in call("run", "--help")[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "sinn", "data.csv"), "no model 'sinn'; did you mean sin?"),
        (("run", "sin", "nowhere.csv"), "there is no file nowhere.csv; use - for standard input."),
        (("run", "sin", "data.csv", "--y", "level"), 'no column "level"; they have'),
        (("run", "tracking", "data.csv"), "has 2 components, so name 2 columns with --y"),
        (("run", "sin", "data.csv", "--time", "day"), 'no column "day"; they have'),
        (("run", "sin", "data.csv", "--save", "nowhere/s.safetensors"), "there is no directory nowhere to write"),
        (("run", "sin", "broken.parquet"), "broken.parquet is not a Parquet file that can be read"),
        (("run", "json:loads", "data.csv"), "must be a paramfilter.StateSpaceModel"),
        (("run", "no_such_module:model", "data.csv"), "there is no module 'no_such_module' in"),
        (("plot", "nowhere.nc"), "there is no result at nowhere.nc"),
        (("simulate", "sin", "--theta", "theta"), "Write name=number"),
        (("simulate", "sin", "--theta", "phi=1"), "unknown: ['phi']"),
        (("explain", "W99"), "no warning 'W99'"),
        (("serve", "nowhere.toml"), "nowhere.toml"),
    ],
)
def test_a_mistake_ends_with_a_sentence_and_code_1(call, folder, monkeypatch, words, message):
    monkeypatch.chdir(folder)
    (folder / "broken.parquet").write_bytes(b"PAR1xxxx")
    code, _, said = call(*words)
    assert code == names.FAILED
    assert said.startswith("paramfilter: ") and message in said
    assert "Traceback" not in said


def test_an_unknown_option_or_choice_ends_with_code_2(call):
    assert call("run", "sin", "--particle", "5")[0] == 2
    assert call("run", "sin", "--filter", "kalman")[0] == 2


GOOD, BAD = [b"0.5", b"NA", b"-0.3"], b"1_000"
"""Lines of a CSV, and one that is not a number."""
VALUES = [0.5, np.nan, -0.3]
"""What the good lines hold."""


@pytest.mark.parametrize(
    ("lines", "values", "skipped"),
    [
        ([b"y", *GOOD[:2], b"abc", GOOD[2]], VALUES, [4]),
        ([GOOD[0], b"0.1,0.2", *GOOD[1:]], VALUES, [2]),
        ([b"\xef\xbb\xbf" + GOOD[0], GOOD[1], b"caf\xe9", b"\xff\xfe", GOOD[2]], VALUES, [3, 4]),
        ([b"\xef\xbb\xbfy", *GOOD, b"1" * 200_000], VALUES, [5]),  # longer than the csv module allows
        ([b"y", GOOD[0], b"1" * 400, *GOOD[1:], b"1e400", b"inf"], VALUES, [3, 6, 7]),  # too large for a float
        ([b"y", BAD, *GOOD, "\u0661\u0662".encode(), b'"0.5'], VALUES, [2, 6, 7]),  # foreign digits; an open quote
        ([b"day;y", b"mon;0.5", b"", b"tue;NA", b";-0.3"], VALUES, [3]),
        ([b"y", b"0.5", b"", b"-0.3"], VALUES, []),
        ([b"", b"0.5", b" ", b"-0.3"], [np.nan, *VALUES], []),
        ([b'{"y": 0.5}', b'{"y"', b"", b'{"y": null}', b"[" * 100_000, b"-0.3", b'{"y": -0.3}'], VALUES, [2, 5, 6]),
        ([b'{"y": 0.5}', b'{"y": "1"}', b'{"z": 1}', b'{"y": 1' + b"0" * 400 + b"}", b'{"y": -0.3}'], VALUES, [2, 4]),
    ],
)
def test_a_line_that_cannot_be_read_is_skipped_and_named_by_its_number(lines, values, skipped):
    found = []
    names, rows = read_lines([line + b"\n" for line in lines], lambda number, _: found.append(number))
    matching = Matching(pf.models.sin(), names, ["y"])
    usable = [row for _, row in each(rows, matching.checked, lambda number, _: found.append(number))]
    assert sorted(found) == skipped
    assert np.array_equal(matching.observations(usable).ys, values, equal_nan=True)


def test_a_file_and_a_pipe_report_and_count_the_same_skipped_lines(call, tmp_path):
    text = b"\n".join([b"\xef\xbb\xbfy", *GOOD, BAD, b"0.1", b"caf\xe9", b"", b"0.2\n"])
    (tmp_path / "data.csv").write_bytes(text)
    code, out, said = call("run", "sin", "--json", *LEARN, stdin=text)
    summary = json.loads(out.splitlines()[-1])
    assert (code, summary["observations"], summary["skipped"]) == (0, 6, 2)
    assert "paramfilter: line 5 is skipped: column \"y\" holds '1_000' instead of a finite number.\n" in said
    assert "paramfilter: line 7 is skipped: 'utf-8' codec can't decode byte 0xe9" in said
    code, out, from_file = call("run", "sin", tmp_path / "data.csv", *LEARN)
    assert code == 0 and said in from_file and "skipped lines: 2" in from_file
    _, as_json, _ = call("run", "sin", tmp_path / "data.csv", "--json", *LEARN)
    assert json.loads(as_json) == summary


@pytest.mark.parametrize("is_file", [False, True], ids=["pipe", "file"])
def test_strict_stops_at_the_first_line_that_cannot_be_read(call, tmp_path, is_file):
    text, saved = b"\n".join([*GOOD, BAD, b"0.5"]), tmp_path / "state.safetensors"
    (tmp_path / "data.csv").write_bytes(text)
    source = [tmp_path / "data.csv"] if is_file else []
    code, _, said = call("run", "sin", *source, "--strict", "--save", saved, *LEARN, stdin=text)
    assert code == names.FAILED
    assert said.endswith("paramfilter: line 4: column \"y\" holds '1_000' instead of a finite number.\n")
    assert is_file or pf.restore(saved, pf.sir_filter(pf.models.sin(), 50)).time == 3  # a file is read before it is run


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"y,y", b"1,2"], 'line 1: there are 2 columns "y"; give each column its own name.'),
        ([b"", b"gr\xf6sse", b"1"], "line 2: 'utf-8' codec can't decode byte 0xf6"),
        ([b'"y', b"1"], "line 1: unexpected end of data"),
        ([b" ", b""], "there are no data"),
    ],
)
def test_a_heading_that_cannot_be_read_ends_the_run(lines, message):
    with pytest.raises(pf.errors.DataError, match=message):
        read_lines(lines, skip=print)


def test_an_error_in_a_step_loses_no_step_before_it(call, folder, tmp_path, fails):
    fails(5, RuntimeError("the device is gone"))
    saved, out = tmp_path / "state.safetensors", tmp_path / "run.nc"
    with pytest.raises(RuntimeError, match="the device is gone"):
        call("run", "sin", "--save", saved, "--out", out, *LEARN, stdin=(folder / "data.csv").read_bytes())
    assert pf.restore(saved, pf.sir_filter(pf.models.sin(), 50)).time == 5
    assert pf.results.load_result(out).attrs["num_observations"] == 5


def test_a_file_that_is_interrupted_keeps_the_pieces_before(call, folder, tmp_path, monkeypatch, fails):
    fails(16, KeyboardInterrupt())
    monkeypatch.setattr(learning, "LARGEST_PIECE", 16)
    words = [folder / "data.csv", "--save", tmp_path / "state.safetensors", "--out", tmp_path / "run.nc", *LEARN]
    code, _, said = call("run", "sin", *words)
    assert code == 0, said
    assert pf.restore(tmp_path / "state.safetensors", pf.sir_filter(pf.models.sin(), 50)).time == 16
    assert pf.results.load_result(tmp_path / "run.nc")["observed_data"].sizes["time"] == 16


def test_a_process_that_is_terminated_saves_its_state_and_reports(folder, tmp_path):
    saved = tmp_path / "state.safetensors"
    script = "from paramfilter.cli import main; main()"
    words = [sys.executable, "-c", script, "run", "sin", "--json", "--save", saved, *LEARN]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdin.writelines((folder / "data.csv").read_bytes().splitlines(keepends=True)[:8])
        process.stdin.flush()
        steps = [json.loads(process.stdout.readline())["t"] for _ in range(7)]
        process.send_signal(signal.SIGTERM)
        last = json.loads(process.stdout.readline())
        assert process.wait(60) == 0, process.stderr.read()
    assert steps == [1, 2, 3, 4, 5, 6, 7] and last["observations"] == 7
    assert pf.restore(saved, pf.sir_filter(pf.models.sin(), 50)).time == 7


def test_a_parquet_file_is_read_as_the_table_it_is(call, folder, tmp_path):
    table = pytest.importorskip("pyarrow").table({"y": np.loadtxt(folder / "data.csv", skiprows=1)})
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "data.parquet")
    _, from_csv, _ = call("run", "sin", folder / "data.csv", "--json", *LEARN)
    code, out, said = call("run", "sin", tmp_path / "data.parquet", "--json", *LEARN)
    assert code == 0, said
    assert json.loads(out) == json.loads(from_csv)


def test_columns_find_their_place_in_a_model_with_named_inputs(monkeypatch, tmp_path):
    monkeypatch.chdir(with_inputs(tmp_path))
    model, _ = model_named("pushed_model:pushed")
    names = list(model.example_inputs)
    matching = Matching(model, [*names, "day", "flow"], time="day")
    found = matching.observations([{**dict.fromkeys(names, 0.5), "day": "mon", "flow": 2.0}])
    assert (found.ys.tolist(), found.times.tolist()) == ([2.0], ["mon"]) and set(found.inputs) == set(names)
    with pytest.raises(pf.errors.DataError, match="the data have no such column"):
        Matching(model, ["flow"])


def test_a_model_of_ones_own_is_found_in_this_folder(monkeypatch, tmp_path):
    (tmp_path / "tank_model.py").write_text("from paramfilter.models import sin as tank\n")
    monkeypatch.chdir(tmp_path)
    assert model_named("tank_model:tank")[0].name == "sin"
    with pytest.raises(pf.errors.ModelError, match=r"no 'tonk'; did you mean tank\?"):
        model_named("tank_model:tonk")


def test_without_its_packages_the_command_names_the_extra(tmp_path):
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(name='typer')")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import paramfilter.cli; paramfilter.cli.main()"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 1
    assert 'pip install "paramfilter[cli]"' in ended.stderr
