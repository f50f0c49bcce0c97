"""Anomaly mode left on, for real under the sampler, and the same program without it."""

import pytest
import torch
from unit.lens.test_stalls import line_of, measure, stalls

from emberward.findings import Cause
from emberward.lens._debug_modes import _switches
from emberward.lens._source import Source

MODEL = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU()) for _ in range(20)))
INPUTS = torch.ones(4, 16)


def trains(step):
    MODEL(INPUTS).sum().backward()


def trains_in_a_debug_mode(step):
    with torch.autograd.detect_anomaly():  # here
        trains(step)


def trains_in_a_mode_that_is_off(step):
    with torch.autograd.set_detect_anomaly(False):
        trains(step)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_is_named_at_the_line_that_switches_it_on(tmp_path):
    (found,) = stalls(measure(tmp_path, trains_in_a_debug_mode))
    assert (found.cause, found.site) == (Cause.DEBUG_MODE, f"{__file__}:{line_of(trains_in_a_debug_mode)}")


def test_a_mode_that_is_off_costs_nothing(tmp_path):
    assert stalls(measure(tmp_path, trains_in_a_mode_that_is_off)) == []


@pytest.mark.parametrize(("text", "lines"), [("y = x.sum()\n", []), ("f(detect_anomaly=True)\n", [1])])
def test_only_a_file_with_the_name_of_a_switch_is_looked_through(text, lines):
    source = Source(text=text, file="train.py", of=None)
    assert list(_switches(source)) == lines
    assert ("tree" in vars(source)) == bool(lines)
