"""Days of a job on a simulated cluster: planner, ledger and goodput; what has to hold holds."""

import pytest

from emberward.testing import DaysSimulation


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_of_hardware_cost_their_hosts_a_place_and_the_program_s_cost_none(seed, tmp_path):
    days = DaysSimulation(seed, tmp_path).run(num_faults=8)
    assert days.broken == (), days
    assert sum(days.faults.values()) == days.goodput.num_failures == 8
    assert days.num_strikes >= 1
    assert 0.0 < days.goodput.share < 1.0


def test_a_strike_for_a_program_s_fault_breaks_an_invariant(tmp_path, monkeypatch):
    """The checks can fail: a doctor that names the first host for each death."""
    from emberward.findings import host_down

    monkeypatch.setattr(
        "emberward.testing._cluster_days.findings_of", lambda examined: [host_down("h00", "is blamed", next="-")]
    )
    days = DaysSimulation(1, tmp_path).run(num_faults=8)
    assert any(each.startswith("1: ") for each in days.broken), days
