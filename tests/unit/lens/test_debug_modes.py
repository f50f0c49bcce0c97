"""Anomaly mode left on, for real under the sampler, and the same program without it."""

import pytest
import torch
from unit.lens.test_stalls import line_of, measure, stalls

from emberward.findings import Cause

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
