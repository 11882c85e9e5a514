"""What does not compute does not import JAX: help, explanations, mistakes and tab completion answer at once."""

import os
import subprocess
import sys

import pytest

import paramfilter as pf
from paramfilter.diagnostics import CODES

SLOW = ("jax", "numpyro", "scipy", "numpy", "xarray", "matplotlib", "pandas")

WATCHED = f"""
import atexit, sys
atexit.register(lambda: print("imported:", *(name for name in {SLOW!r} if name in sys.modules), file=sys.stderr))
sys.argv[0] = "paramfilter"
from paramfilter.cli import main
main()
"""


def command(*words, **settings):
    """Run the command in a process; return its exit code, standard output, and standard error without slow imports."""
    environment = os.environ | {"COLUMNS": "200", **settings}
    ended = subprocess.run(
        [sys.executable, "-c", WATCHED, *words], env=environment, capture_output=True, text=True, check=False
    )
    said, _, imported = ended.stderr.rpartition("imported:")
    assert imported.split() == [], f"the command imported {imported}"
    return ended.returncode, ended.stdout, said


@pytest.mark.parametrize(
    ("words", "code", "answer"),
    [
        (("--help",), 0, "Learn the static parameters"),
        (("run", "--help"), 0, "storvik"),
        (("plot", "--help"), 0, "prior_posterior"),
        (("explain", "W05"), 0, "W05 forecasts and observations do not match"),
        (("explain", "2"), 0, "W06"),
        (("explain", "W99"), 1, "no warning 'W99'"),
        (("run", "sni", "x.csv"), 1, "no model 'sni'; did you mean sin?"),
        (("simulate", "sni"), 1, "no model 'sni'; did you mean sin?"),
        (("run", "sin", "x.csv", "--filter", "kalman"), 2, "'kalman' is not one of"),
        (("plot", "run.nc", "--kind", "pie"), 2, "'pie' is not one of"),
        (("rum", "sin"), 2, "No such command 'rum'"),
    ],
)
def test_what_computes_nothing_does_not_import_jax(words, code, answer):
    ended, out, said = command(*words)
    assert ended == code
    assert answer in (said if code else out)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("paramfilter e", ["explain"]),
        ("paramfilter run st", ["star", "stochastic_volatility"]),
        ("paramfilter simulate tr", ["tracking"]),
        ("paramfilter run sin data.csv --filter s", ["sir", "storvik"]),
        ("paramfilter plot run.nc --kind p", ["parameters", "prior_posterior"]),
        ("paramfilter explain W0", [code.code for code in CODES if code.code.startswith("W0")]),
    ],
)
def test_tab_completion_offers_names_without_importing_jax(line, offered):
    position = str(len(line.split()) - 1)
    settings = {"_PARAMFILTER_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": position}
    assert command(**settings)[1].split() == offered


def test_importing_the_package_imports_nothing_slow_and_touches_no_setting_of_jax():
    code = f"""
import sys, paramfilter as pf
assert "run" in dir(pf) and "sin" in dir(pf.models) and "parameters" in dir(pf.plots)
print([name for name in {SLOW!r} if name in sys.modules])
import jax
before = jax.config.jax_compilation_cache_dir
pf.models, pf.config, pf.ParamfilterError
print(jax.config.jax_compilation_cache_dir == before)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.stdout.split("\n"), ended.stderr) == (["[]", "True", ""], "")


@pytest.mark.parametrize("package", [pf, pf.models, pf.plots, pf.diagnostics], ids=lambda one: one.__name__)
def test_every_public_name_can_be_imported(package):
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        _ = package.no_such_name


def test_a_model_is_a_function_whichever_is_imported_first_the_package_or_its_module():
    code = "from paramfilter.models.sin import TRUTH; from paramfilter.models import sin; print(sin().name, TRUTH)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout == "sin {'theta': 0.7}\n", ended.stderr
