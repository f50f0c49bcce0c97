"""Seed 2's card, replayed with real processes."""

import os

from emberward.testing import INCIDENTS, IncidentRunner, show


def test_gpu_7_is_found_in_at_most_five_tests(tmp_path):
    incident = next(each for each in INCIDENTS if each.name == "gpu7")
    showing = show(
        incident, IncidentRunner(folder=tmp_path, environment=dict(os.environ), tell=lambda text: None), is_twin=False
    )
    assert showing.wrong == ()
    assert showing.findings[0].devices == ("gpubox:7",)
