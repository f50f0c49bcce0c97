"""Hosts that differ as a whole: slower than the others, or with other code."""

import random

import pytest

from emberward.findings import Cause, Kind, Severity
from emberward.supervise._slow_hosts import HOLD_S, HostsAlike, maybe_slow, slow_hosts


def posts(own_ms, *, hosts="abc", num=40, program="p"):
    """Two ranks a host; ``own_ms(host, step)`` of 200 ms."""
    found = {}
    for index, host in enumerate(hosts):
        steps = {
            "program": program,
            "ranks": [2 * index, 2 * index + 1],
            "numbers": list(range(3, 3 + num)),
            "own_ms": [own_ms(host, step) for step in range(num)],
            "length_ms": [200.0] * num,
        }
        found[host] = {"host": host, "ranks": steps["ranks"], "steps": [steps]}
    return found


def noisy(extra):
    rng = random.Random(3)
    return lambda host, step: rng.gauss(150, 2) + extra(host, step)


def test_a_host_that_is_slow_as_a_whole_is_a_warning_in_these_words():
    (found,) = slow_hosts(posts(lambda host, step: 160.0 if host == "c" else 150.0))
    assert (found.code, found.severity, found.kind, found.cause) == (
        "H144",
        Severity.WARNING,
        Kind.STRAGGLER,
        Cause.SLOW_RANK,
    )
    assert (found.hosts, found.culprit_ranks, found.waiting_ranks) == (("c",), (4, 5), (0, 1, 2, 3))
    assert found.message == "host c is waited for in every step: 10 ms of 0.200 s, 5.0% of all"


def test_it_is_said_when_it_held_for_a_while():
    alike, slow = HostsAlike(), posts(noisy(lambda host, _: 10.0 * (host == "b")))
    assert alike.poll(slow, now_s=100.0) == ()
    assert [f.hosts for f in alike.poll(slow, now_s=100.0 + HOLD_S)] == [("b",)]
    assert alike.poll(posts(noisy(lambda host, _: 0.0)), now_s=120.0) == ()


ALIKE = {
    "noise": noisy(lambda host, step: 0.0),
    "all are slow": noisy(lambda host, step: 40.0 * (step > 20)),
    "one slow step": noisy(lambda host, step: 900.0 * (host == "b" and step == 11)),
    "it wanders": noisy(lambda host, step: 40.0 * ("abc"[step % 3] == host)),
}


@pytest.mark.parametrize("what", ALIKE)
def test_hosts_that_are_alike_are_not_named(what):
    assert slow_hosts(posts(ALIKE[what])) == ()


def test_hosts_that_run_other_programs_are_not_compared():
    mixed = posts(lambda host, step: 150.0, hosts="ab") | posts(lambda host, step: 190.0, hosts="cd", program="q")
    assert slow_hosts(mixed) == ()
    assert slow_hosts({"a": {"steps": [{"program": "p"}]}, "b": {"steps": "no"}}) == ()


def test_a_host_with_another_version_is_named_once_all_have_told():
    alike = HostsAlike()
    told = {host: {"host": host, "ranks": [rank], "facts": {"torch": "2.13.0"}} for rank, host in enumerate("abc")}
    told["c"]["facts"] = {"torch": "2.12.1"}
    assert alike.poll({**told, "b": {"host": "b", "ranks": [1]}}, now_s=1.0) == ()
    (found,) = alike.poll(told, now_s=2.0)
    assert (found.code, found.cause, found.hosts, found.culprit_ranks) == ("H142", Cause.VERSION_SKEW, ("c",), (2,))
    later = {host: {"host": host, "ranks": post["ranks"]} for host, post in told.items()}
    assert alike.poll(later, now_s=3.0) == (found,), "it is kept when it is posted no more"


def test_hosts_with_the_same_versions_are_not_named():
    told = {host: {"host": host, "ranks": [rank], "facts": {"torch": "2.13.0"}} for rank, host in enumerate("abc")}
    assert HostsAlike().poll(told, now_s=1.0) == ()


def test_a_host_whose_own_part_makes_the_newest_three_steps_long_may_be_slow():
    """Its link is not accused meanwhile: H144 needs more steps."""
    late = posts(lambda host, step: 150.0 + 45.0 * (host == "c" and step >= 37))
    assert (slow_hosts(late), maybe_slow(late)) == ((), {"c"})
    for quiet in (
        posts(lambda host, step: 150.0 + 45.0 * (host == "c" and step >= 38)),
        posts(lambda host, step: 150.0 + 35.0 * (host == "c")),
        posts(lambda host, step: 150.0 + 45.0 * (host in "bc")),
        posts(lambda host, step: 195.0, hosts="a"),
        posts(lambda host, step: 150.0 + 45.0 * (host == "c"), num=2),
        {"a": {"steps": [{"program": "p"}]}, "b": {"steps": "no"}},
    ):
        assert maybe_slow(quiet) == set()
