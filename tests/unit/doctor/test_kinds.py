"""Hosts of another kind, which say so, and slow ones, which say what the others say."""

import random

import pytest

from emberward.doctor import Examination, Fleet, Plan, ProbePlan, Result, SetOutcome, Talk, findings_of
from emberward.doctor._kinds import Kinds

HOSTS = [f"h{i}" for i in range(6)]


def examined(detail, pace, *, per_host: int = 2, talk: Talk = Talk.ANY) -> Plan:
    """`detail` and `pace` by host, and the count of answers."""
    fleet = Fleet.of(HOSTS, per_host)
    plan, rng, count = Plan(fleet, ProbePlan(name="sim", talk=talk), random.Random(0)), random.Random(1), 0
    while plan.round < 40 and (sets := plan.next_round()):
        results = []
        for devices in sets:
            count += 1
            hosts = {n: fleet.devices[n].host for n in devices}
            value = 100 * min(pace(host) for host in hosts.values()) * (1 + rng.gauss(0, 0.01))
            results.append(
                Result(
                    devices=devices,
                    outcome=SetOutcome.PASS,
                    seconds=1.0,
                    values=dict.fromkeys(devices, value),
                    details={n: detail(host, n, count) for n, host in hosts.items()},
                )
            )
        plan.learn(results)
    return plan


def accused(plan: Plan) -> list[tuple[str, tuple[int | str, ...]]]:
    return [(each.part.kind.value, each.part.key) for each in plan.suspects()]


def slow_h3(host: str) -> float:
    return 0.75 if host == "h3" else 1.0


def by_class(host: str, number: int, count: int) -> str:
    return f"{host}: class {'L' if host == 'h3' else 'H'} at {40 + (count + number) % 7} C"


@pytest.mark.parametrize("talk", [Talk.ANY, Talk.ALONE, Talk.TOGETHER])
def test_a_host_that_says_that_it_is_of_another_class_is_compared_with_its_like_alone(talk):
    plan = examined(by_class, slow_h3, talk=talk)
    assert accused(plan) == []


def test_the_difference_is_told():
    plan = examined(by_class, slow_h3)
    found = findings_of(Examination(fleet=plan.fleet, plans=(plan,), seconds=1.0))
    assert [(each.code, each.hosts) for each in found] == [("E108", ()), ("E111", ("h3",))]
    assert found[1].message == (
        "h3:0,1 say that they are of another kind than the others: each was compared with those alone that say the "
        "same (probe sim)"
    )
    assert "h3:0,1: 75 " in found[1].evidence[1]
    assert "say class L at C; too few to be compared" in found[1].evidence[1]


@pytest.mark.parametrize(
    "detail",
    [
        lambda host, number, count: "class H",
        lambda host, number, count: "",
        lambda host, number, count: f"host {host}",
        lambda host, number, count: f"serial {7919 * (number + 1)}",
        lambda host, number, count: f"{0.9 + count % 5} ms",
    ],
    ids=["the same", "nothing", "its name", "serial numbers", "measured"],
)
def test_a_slow_host_that_does_not_tell_another_kind_is_named(detail):
    assert accused(examined(detail, slow_h3)) == [("host", ("h3",))]


def test_a_slow_device_is_named_within_its_class():
    def detail(host, number, count):
        return "class L" if host in ("h0", "h1") else "class H"

    def pace(host):
        return {"h0": 0.6, "h1": 0.6, "h4": 0.9}.get(host, 1.0)

    plan = examined(detail, pace)
    assert accused(plan) == [("host", ("h4",))]


def test_words_that_change_with_any_member_tell_nothing():
    kinds = Kinds(Fleet.of(HOSTS, 1))
    for turn in range(2):
        kinds.learn({n: f"class {'A' if n < 3 else 'B'} {40 + turn * (n == 5)} C" for n in range(6)})
    assert {kinds.of(n) for n in range(3)} == {"class A C"}
    assert {kinds.of(n) for n in range(3, 6)} == {"class B C"}
