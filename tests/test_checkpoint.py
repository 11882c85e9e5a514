"""Checkpoints are data, whole or refused: by checksum, by format, by the filter they belong to."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

import paramfilter as pf
from paramfilter import checkpoint, errors


def make(name="linear_gaussian", r=0.25, num_particles=16, phi=None, initial_variance=1.0, **parts):
    model = pf.models.linear_gaussian(phi=phi or dist.Normal(0.3, 0.2), r=r, initial_variance=initial_variance)
    renamed = pf.StateSpaceModel(model.prior, model.initial, model.transition, model.observation, name=name)
    return pf.storvik_filter(renamed, num_particles, **parts)


@pytest.fixture(scope="module")
def filter():
    return make()


@pytest.fixture
def saved(filter, tmp_path):
    path = tmp_path / "run.safetensors"
    pf.save(path, filter.init(jax.random.key(3)))
    return path


def test_a_checkpoint_is_replaced_whole_and_leaves_nothing_behind(filter, saved):
    before = saved.read_bytes()
    pf.save(saved, filter.step(filter.init(jax.random.key(3)), 0.5)[0])
    assert saved.read_bytes() != before
    assert [path.name for path in saved.parent.iterdir()] == ["run.safetensors"]


def test_a_crash_while_writing_keeps_the_old_checkpoint(filter, saved, monkeypatch):
    before = saved.read_bytes()

    def crash(*_):
        raise OSError("power cut")

    monkeypatch.setattr(checkpoint.os, "replace", crash)
    with pytest.raises(OSError, match="power cut"):
        pf.save(saved, filter.step(filter.init(jax.random.key(3)), 0.5)[0])
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == ["run.safetensors"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: make(name="tracker"), "model: 'linear_gaussian' there, 'tracker' here"),
        (lambda: make(num_particles=32), "particles: 16 there, 32 here"),
        (lambda: make(r=0.26), "log densities at the same points"),
        (lambda: make(phi=dist.Normal(0.3, 0.25)), "log densities at the same points"),
        (lambda: make(initial_variance=2.0), "log densities at the same points"),
        (
            lambda: make(resampling=pf.resampling.Multinomial()),
            "resampling: 'Systematic()' there, 'Multinomial()' here",
        ),
        (lambda: make(proposal=pf.proposals.Guided()), "proposal: 'Bootstrap()' there, 'Guided()' here"),
        (lambda: make(outliers=pf.OutlierGate()), "outliers: 'None' there, 'OutlierGate(num_sd=8.0"),
        (lambda: make(outliers=pf.OutlierGate(6.0)), "OutlierGate(num_sd=6.0"),
    ],
)
def test_a_checkpoint_of_another_filter_is_refused_by_name(saved, other, words):
    with pytest.raises(errors.CheckpointError, match="belongs to another filter") as caught:
        pf.restore(saved, other())
    assert words in str(caught.value)


def test_the_same_model_written_again_is_welcome(saved, filter):
    restored = pf.restore(saved, make())
    assert np.array_equal(restored.x, filter.init(jax.random.key(3)).x)


def test_every_flipped_byte_is_noticed(saved, filter):
    content = saved.read_bytes()
    for place in range(0, len(content), max(1, len(content) // 120)):
        saved.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        with pytest.raises(errors.CheckpointError):
            pf.restore(saved, filter)


def test_every_truncation_is_noticed(saved, filter):
    content = saved.read_bytes()
    for length in range(0, len(content), max(1, len(content) // 60)):
        saved.write_bytes(content[:length])
        with pytest.raises(errors.CheckpointError):
            pf.restore(saved, filter)


def test_a_newer_format_is_refused_by_number(saved, filter):
    with safe_open(saved, framework="numpy") as file:
        header, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(arrays, saved, header | {"format": "99"})
    with pytest.raises(errors.CheckpointError, match="format '99'"):
        pf.restore(saved, filter)


def test_the_other_precision_is_refused_in_those_words(saved):
    with (
        jax.enable_x64(True),
        pytest.raises(errors.CheckpointError, match="precision: 'float32' there, 'float64' here"),
    ):
        pf.restore(saved, make())


def test_no_checkpoint_at_all_says_so(filter, tmp_path):
    with pytest.raises(errors.CheckpointError, match="there is no checkpoint"):
        pf.restore(tmp_path / "nothing.safetensors", filter)
