"""Long waits are announced, short ones are not: by a log record, and by a line on a terminal."""

import io
import logging
import re
import sys
import time

import jax
import numpy as np
import pytest

import paramfilter as pf
from paramfilter import waiting as module
from paramfilter.waiting import waiting


@pytest.fixture
def impatient(monkeypatch, caplog):
    """Announce after 0.2 s, and keep what was logged."""
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    caplog.set_level(logging.INFO, logger="paramfilter")
    return caplog


def test_patience_is_below_two_seconds():
    assert module.PATIENCE < 2.0


def test_short_waits_are_silent_and_long_ones_are_logged(impatient, capsys):
    with waiting("compiling"):
        pass
    assert impatient.messages == []
    with waiting("compiling"):
        time.sleep(0.7)
    begun, ended = impatient.messages
    assert re.fullmatch(r"compiling, \d+\.\d s so far", begun) and re.fullmatch(r"compiling took \d+ s", ended)
    assert capsys.readouterr() == ("", ""), "off a terminal nothing is written"


def test_a_wait_inside_another_is_not_announced_again(impatient):
    with waiting("inspecting the model"), waiting("compiling"):
        time.sleep(0.7)
    assert len(impatient.messages) == 2 and all("inspecting the model" in text for text in impatient.messages)


def test_a_terminal_shows_a_line_that_goes_away(impatient, monkeypatch):
    screen = io.StringIO()
    screen.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", screen)
    with waiting("compiling"):
        time.sleep(0.7)
    assert re.search(r"compiling, \d+ s so far", screen.getvalue())
    assert screen.getvalue().split("\r")[-1].strip() == ""


def test_an_error_passes_through_and_ends_the_announcement(impatient):
    with pytest.raises(ValueError, match="wrong"), waiting("compiling"):
        raise ValueError("wrong")
    with waiting("again"):
        time.sleep(0.7)
    assert impatient.messages[0].startswith("again")


def test_making_and_running_a_filter_say_what_they_do(impatient, monkeypatch):
    filter = pf.auto_filter(pf.models.linear_gaussian(), 16)
    assert any(text.startswith("inspecting the model") for text in impatient.messages)
    impatient.clear()
    pf.run(filter, filter.init(jax.random.key(0)), np.zeros(3))
    assert any(text.startswith("compiling") for text in impatient.messages)
    impatient.clear()
    monkeypatch.setattr(module, "PATIENCE", 5.0)  # of a busy machine; what is compiled already takes milliseconds
    pf.run(filter, filter.init(jax.random.key(0)), np.zeros(3))
    assert impatient.messages == [], "what is compiled already needs no announcement"
