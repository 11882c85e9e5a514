"""The paper's experiments at a small size: what it claims and holds, what it claims and does not.

The full sizes are `python -m papers.epf2013 all`; their numbers stand on the documentation's page on the paper.
"""

import dataclasses
import pkgutil
import re
from pathlib import Path

import numpy as np
import pytest
from papers.epf2013 import FIGURES, RESULTS, read, reproduce
from papers.epf2013.cauchy_posterior import cauchy_posterior_of
from papers.epf2013.filter_runs import Size, errors_at_end, sd_ratios_at_end, verdict
from papers.epf2013.filters import compute_cauchy_filters, compute_sin_filters, compute_star_filters
from papers.epf2013.gibbs import believed_log_densities, exact_log_densities, simulate_states
from papers.epf2013.numbers import plain, write
from papers.epf2013.orders import compute_sin_divergence, compute_sin_orders
from papers.epf2013.series_alone import compute_series_alone
from papers.epf2013.shrinkage import compute_sin_shrinkage, compute_star_shrinkage
from papers.epf2013.taylor_densities import compute_taylor_densities

import paramfilter as pf
from paramfilter.models.sin import TRUTH as SIN_TRUTH
from paramfilter.particles.printed import cauchy_with_series, printed_cauchy, printed_star, star_with_series

DENSITY_LIMITS = {4: 1.0, 8: 1e-2, 12: 5e-5, 16: 5e-7}
MEAN_LIMITS = {5: 5e-2, 9: 5e-5}


def drawn(name, results):
    """Draw a figure from numbers as a file would have them."""
    return FIGURES[name].draw(plain(results))


def test_taylor_densities_converge_for_the_example_and_diverge_for_cauchy_noise():
    """Theorem 2: super-exponential, if derivatives are bounded; those of log(1 + v^2) are not."""
    results = compute_taylor_densities()
    divergences = dict(zip(results["orders"], results["kl"], strict=True))
    assert all(divergences[order] <= limit for order, limit in DENSITY_LIMITS.items())
    falls = -np.diff(np.log([divergences[order] for order in DENSITY_LIMITS]))
    assert np.all(falls > 4) and falls[-1] > falls[0] - 1
    assert results["kl_cauchy"][-1] > 1000 * results["kl_cauchy"][0]
    improper = np.array(results["orders"])[results["improper_on_the_line"]]
    assert improper.tolist() == [2, 6, 10, 14, 18]
    drawn("taylor_densities", results)


@pytest.mark.slow
def test_the_gibbs_density_of_sin_closes_in_on_the_truth():
    results = compute_sin_shrinkage(times=(16, 256, 1024), num_data_sets=1)
    sds = np.array(results["sd"])
    assert np.all(np.diff(sds, axis=1) < 0)
    assert np.all(np.abs(np.array(results["mean"])[:, -1] - 0.7) < 4 * sds[:, -1])
    drawn("sin_shrinkage", results)


@pytest.mark.slow
def test_the_gibbs_density_of_star_shrinks():
    results = compute_star_shrinkage(times=(30, 300), num_data_sets=1)
    assert np.all(np.diff(np.array(results["sd"])[0], axis=0) < 0)
    drawn("star_shrinkage", results)


def test_the_approximate_density_of_sin_converges_in_the_order():
    """Theorem 3 with the library's own beliefs; with the signs of the paper's Appendix D it is far off."""
    results = plain(compute_sin_orders(orders=tuple(MEAN_LIMITS), num_data_sets=2))
    for order, limit in MEAN_LIMITS.items():
        assert max(results["errors"][str(order)]["kl"]) <= limit
        assert max(results["errors"][str(order)]["mode_with_signs_of_appendix"]) < -0.5
    FIGURES["sin_orders"].draw(results)


@pytest.mark.slow
def test_at_a_fixed_order_the_divergence_grows_with_time_unless_centred_at_the_truth():
    results = plain(compute_sin_divergence((3,), (3,), (256, 4096), num_data_sets=2))
    at_zero, at_truth = (np.array(results[name]["3"]) for name in ("centred_at_0", "centred_at_truth"))
    assert np.all(at_zero[:, 1] > 4 * at_zero[:, 0])
    assert np.all(at_truth[:, 1] < at_truth[:, 0] / 2)
    FIGURES["sin_divergence"].draw(results)


@pytest.mark.slow
def test_the_series_of_cauchy_and_star_miss_the_truth_even_when_states_are_known():
    results = plain(compute_series_alone((4, 10), (9,), num_data_sets=1, num_steps=300))
    cauchy, star = results["cauchy"], results["star"]
    assert abs(cauchy["exact"][0] - 0.7) < 0.05
    assert abs(cauchy["series"]["10"][0] - 0.7) > 0.1
    assert cauchy["series"]["4"][0] in cauchy["window"]
    assert 0.4 < np.mean(cauchy["outside_radius"]) < 0.6
    assert np.mean(star["outside_radius"]) > 0.4
    assert star["series"]["9"][0]["mean"][0] < 0.5 < star["exact"][0]["mean"][0]
    FIGURES["series_alone"].draw(results)


@pytest.mark.parametrize(
    ("belief", "model", "cut_off", "theta"),
    [
        (printed_cauchy(), pf.models.cauchy_ar1(), cauchy_with_series(10), {"a": 0.7}),
        (printed_star(order=3), pf.models.star(), star_with_series(3), {"gamma": 1.0, "c": 3.0}),
    ],
    ids=["Cauchy", "STAR"],
)
def test_a_printed_belief_is_its_series(belief, model, cut_off, theta):
    """The belief's polynomial is the log density of the cut-off model, up to a constant."""
    path, z = simulate_states(model, theta, 3, 6), np.asarray(model.parameters.prior_draws[:8])
    believed = believed_log_densities(belief, model, [path], z, (6,))[0, 0]
    exact = exact_log_densities(cut_off, path, z, (6,))[0]
    np.testing.assert_allclose(believed - believed[0], exact - exact[0], rtol=1e-9, atol=1e-6)


@pytest.mark.slow
def test_sin_is_learned_by_the_filter_as_printed():
    size = Size(num_data_sets=1, num_steps=100, exact_times=(), kinds=("printed",))
    results = plain(compute_sin_filters(size))
    assert abs(errors_at_end(results, "EPF as printed, 1,000", "theta")[0]) <= 0.6
    assert 0.85 <= sd_ratios_at_end(results, "EPF as printed, 1,000", "theta")[0] <= 1.15
    assert verdict(results, "EPF as printed, 1,000")["theta"]["rms_error_in_sds"] <= 0.6
    FIGURES["sin_filters"].draw(results)


@pytest.fixture(scope="module")
def yardsticks():
    """The paper's two rivals on SIN, with few particles."""
    return compute_sin_filters(Size(1, 200, (), ("sir", "liu_west"), with_exact=False), many=100)["filters"]


@pytest.mark.slow
@pytest.mark.parametrize("label", ["SIR, 100", "Liu–West, 100"])
def test_with_few_particles_the_rivals_collapse_far_from_the_truth(yardsticks, label):
    (end,) = yardsticks[label]["ends"]
    assert abs(end["mean"]["theta"] - SIN_TRUTH["theta"]) > 0.3
    assert end["sd"]["theta"] < 1e-3


@pytest.mark.slow
def test_the_plain_filter_collapses_on_cauchy_noise():
    results = compute_cauchy_filters(Size(1, 200, (), ("sir",), with_exact=False), many=100)
    assert results["filters"]["SIR, 100"]["ends"][0]["sd"]["a"] < 1e-3


@pytest.mark.slow
def test_liu_west_with_few_particles_collapses_on_star():
    results = compute_star_filters(Size(1, 200, (), ("liu_west",), with_exact=False), many=100)
    assert min(results["filters"]["Liu–West, 100"]["ends"][0]["sd"].values()) < 0.1


def test_the_cauchy_reference_is_plain_quadrature():
    """Two observations: the integral over x_0, x_1 and x_2 on one wide grid, written out."""
    ys = np.array([30.0, 12.0])
    x, a = np.linspace(-120.0, 120.0, 601), np.linspace(-1.2, 1.2, 61)
    masses = np.exp(-0.5 * x**2) * np.ones((len(a), 1))
    for y in ys:
        moved = np.stack([row @ (1 / (1 + (x - at * x[:, None]) ** 2)) for row, at in zip(masses, a, strict=True)])
        masses = moved * np.exp(-0.5 * ((y - x) / 10) ** 2)
    weights = np.exp(-0.5 * (a / 0.2) ** 2) * masses.sum(axis=1)
    mean = np.average(a, weights=weights)
    found = cauchy_posterior_of(pf.models.cauchy_ar1(), ys)
    assert found.mean == pytest.approx(mean, abs=1e-3 * found.sd)
    assert found.sd == pytest.approx(np.sqrt(np.average((a - mean) ** 2, weights=weights)), rel=1e-3)


def test_reproduce_goes_on_where_it_was(tmp_path, monkeypatch):
    """What is there is drawn, not computed."""
    write(tmp_path / "taylor_densities.json", compute_taylor_densities(num_points=401))
    monkeypatch.setitem(FIGURES, "taylor_densities", _without_computing(FIGURES["taylor_densities"]))
    files = reproduce(["taylor_densities"], tmp_path, pictures=tmp_path / "pictures", progress=False)
    assert (tmp_path / "pictures" / "taylor_densities.png").exists()
    assert read(files["taylor_densities"])["orders"][0] == 2
    with pytest.raises(ZeroDivisionError):
        reproduce(["taylor_densities"], tmp_path, again=True, progress=False)
    with pytest.raises(pf.errors.DataError, match="no figure 'figure 2'"):
        reproduce(["figure 2"], tmp_path)


def _without_computing(figure):
    return dataclasses.replace(figure, compute=lambda: 1 // 0)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_committed_numbers_and_can_be_drawn(name):
    FIGURES[name].draw(read(RESULTS / f"{name}.json"))


def test_the_page_on_the_paper_names_what_exists():
    """The algorithms of its example can be made, and its table's code and tests are there."""
    tests = Path(__file__).parent
    page = (tests.parent / "docs" / "paper.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)
    exec(example, {"pf": pf, "sin": pf.models.sin(), "conjugate": pf.models.linear_gaussian()})  # noqa: S102
    source = "".join(path.read_text() for path in tests.rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)", source, re.MULTILINE))
    named = set(re.findall(r"`([\w.]+)`", "".join(re.findall(r"^\|.*$", page, re.MULTILINE))))
    named_tests = {name for name in named if name.startswith("test_")}
    assert named_tests and named_tests <= defined
    for name in named - named_tests:
        pkgutil.resolve_name(re.sub(r"^pf\.", "paramfilter.", name))
