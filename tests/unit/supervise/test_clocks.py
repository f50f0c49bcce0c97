"""The order of ends does not follow the clocks of hosts: what each shows is known from its heartbeats."""

import dataclasses

import pytest

from emberward.report import RunFolder, write_json
from emberward.supervise import Host, LaunchPlan, Team, launcher_of
from emberward.supervise._clocks import HostClocks
from emberward.supervise._death import first_death
from emberward.supervise._launch_hosts import HostsAttempt
from emberward.supervise._signals import StopAsked

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("skew_s", "delays_s", "error_s"),
    [(300.0, (1.9, 0.1, 1.4), 0.1), (-300.0, (0.3, 60.0), 0.3), (0.0, (1.5, 0.2), 0.0), (1.0, (0.0,), 1.0)],
    ids=["ahead", "behind, and a late reading", "as ours", "a second ahead: believed"],
)
def test_a_time_of_another_host_is_told_by_our_clock(skew_s, delays_s, error_s):
    clocks = HostClocks()
    for number, delay_s in enumerate(delays_s):
        clocks.take("b", NOW + 2 * number + skew_s, now_unix=NOW + 2 * number + delay_s)
    assert clocks.here("b", NOW + 50.0 + skew_s) == pytest.approx(NOW + 50.0 + error_s)
    assert clocks.here("unheard", NOW) == NOW


@pytest.mark.parametrize("skew_s", [-300.0, 0.0, 300.0])
def test_of_two_failures_the_earlier_is_the_cause_whatever_the_hosts_clocks_show(tmp_path, skew_s):
    """Rank 1 on b failed two seconds before rank 0 on a, and says so by its own clock."""
    team = Team(
        hosts=tuple(Host(name=name, address=name) for name in "ab"), spares=(), ranks_per_host=1, min_hosts=2,
        launcher=launcher_of("local"),
    )  # fmt: skip
    plan = LaunchPlan(folder=RunFolder(path=tmp_path), num_ranks=2, command=(), environment={}, why="new")
    attempt = HostsAttempt(plan, team, None, StopAsked(), on_progress=lambda *_: None, on_finding=lambda _: None)
    for beat_s in (0.0, 2.0):
        for host, skew in (("a", 0.0), ("b", skew_s)):
            beating = tmp_path / "hosts" / host / "1" / "supervisor.json"
            beating.parent.mkdir(parents=True, exist_ok=True)
            write_json(beating, {"state": "runs", "time_unix": NOW + beat_s + skew})
            # Of an earlier attempt, whose supervisor was killed.
            old = tmp_path / "hosts" / host / "0" / "supervisor.json"
            old.parent.mkdir(exist_ok=True)
            write_json(old, {"state": "runs", "time_unix": NOW - 500.0})
        attempt.hear_clocks(now_unix=NOW + beat_s + 0.1)
    for rank, at_unix in ((0, NOW + 12.0), (1, NOW + 10.0 + skew_s)):
        failure = {"type": "ValueError", "message": f"of rank {rank}", "time_unix": at_unix}
        write_json(tmp_path / "failures" / f"rank{rank:05d}.json", failure)
    first = first_death(attempt.records({}, {}))
    assert first is not None
    assert first[0].rank == 1
    assert dataclasses.asdict(first[0])["failure"]["message"] == "of rank 1"
