"""The planner on simulated fleets: what it asks, what it concludes, and that it accuses nobody wrongly."""

import random

import pytest

from emberward.doctor import (
    Fleet,
    Links,
    Plan,
    ProbePlan,
    Result,
    SetOutcome,
    Talk,
    findings_of,
    read_topology,
)
from emberward.doctor._choose import circle_round
from emberward.doctor._examine import Examination
from emberward.doctor._numbers import Numbers
from emberward.findings import ConfigError


def planned(
    fleet: Fleet, fails, *, busy=lambda number, test: False, refuses=False, links=Links.ALL, seed=0, max_rounds=400
) -> Plan:
    """A plan run to its end on a fleet where `fails(set)` says whether a test fails.

    With `refuses` every member of a set says busy when one of them is.
    """
    plan = Plan(fleet, ProbePlan(name="sim"), random.Random(seed))
    tests = 0
    while plan.round < max_rounds and (sets := plan.next_round()):
        results = []
        for devices in sets:
            tests += 1
            held = frozenset(number for number in devices if busy(number, tests))
            held = frozenset(devices) if held and refuses else held
            outcome = SetOutcome.BUSY if held else SetOutcome.FAIL if fails(devices) else SetOutcome.PASS
            results.append(Result(devices=devices, outcome=outcome, seconds=1.0, busy=held, links=links))
        members = [number for devices in sets for number in devices]
        assert len(members) == len(set(members)), "sets of one round are disjoint"
        plan.learn(results)
    return plan


def accused(plan: Plan) -> list[tuple[str, tuple[int | str, ...]]]:
    return [(each.part.kind.value, each.part.key) for each in plan.suspects()]


@pytest.mark.parametrize("links", [Links.ALL, Links.RING, None])
def test_gpu_7_that_breaks_every_job_it_joins_is_found_in_five_tests(links):
    plan = planned(Fleet.of(["box"], 8), lambda devices: 7 in devices and len(devices) > 1, links=links)
    assert accused(plan) == [("device", (7,))]
    assert len(plan.results) <= 5


@pytest.mark.parametrize("num_busy", [1, 5])
def test_who_is_busy_is_asked_where_a_whole_set_refuses(num_busy):
    plan = planned(
        Fleet.of(["box"], 8),
        lambda devices: 7 in devices and len(devices) > 1,
        busy=lambda number, test: number < num_busy,
        refuses=True,
    )
    assert accused(plan) == [("device", (7,))]
    assert sorted(plan.busy) == list(range(num_busy))


def test_gpu_7_is_found_in_five_tests_while_the_others_were_in_use_at_first():
    plan = planned(
        Fleet.of(["box"], 8),
        lambda devices: 7 in devices and len(devices) > 1,
        busy=lambda number, test: number <= 5 and test <= 3,
    )
    assert accused(plan) == [("device", (7,))]
    assert len(plan.results) <= 5


def test_two_devices_that_cannot_be_told_apart_are_left_open():
    plan = planned(Fleet.of(["box"], 2), lambda devices: len(devices) > 1)
    assert accused(plan) == []
    assert {each.part.kind.value for each in plan.open_parts()} >= {"device", "link"}


@pytest.mark.parametrize("seed", range(5))
def test_links_are_told_from_their_ends(seed):
    bad = ({2, 6}, {1, 3})
    plan = planned(Fleet.of(["box"], 8), lambda devices: any(link <= set(devices) for link in bad), seed=seed)
    assert accused(plan) == [("link", (1, 3)), ("link", (2, 6))]


@pytest.mark.parametrize("bad", [((1, 4), (4, 5), (0, 4), (0, 2), (3, 5)), ((2, 5), (5, 6), (0, 5), (1, 4), (3, 6))])
def test_three_bad_links_of_one_device_among_five_do_not_accuse_it(bad):
    plan = planned(Fleet.of(["box"], 8), lambda devices: any(set(link) <= set(devices) for link in bad))
    assert accused(plan) == [("link", link) for link in sorted(bad)]
    assert len(plan.results) <= 150


@pytest.mark.parametrize("seed", range(3))
def test_a_device_that_fails_in_every_second_try_takes_no_more_tries_of_the_others_than_would_show_its_like(seed):
    rng = random.Random(seed)
    plan = planned(Fleet.of(["box"], 8), lambda devices: 3 in devices and rng.random() < 0.5, seed=seed)
    assert accused(plan) == [("device", (3,))]
    assert plan.round <= 60


def test_a_host_whose_network_is_bad_is_named_as_a_host():
    fleet = Fleet.of(["a", "b", "c", "d"], 2)

    def fails(devices):
        hosts = {fleet.devices[number].host for number in devices}
        return "c" in hosts and len(hosts) > 1

    assert accused(planned(fleet, fails)) == [("host", ("c",))]


def test_a_switch_is_named_rather_than_all_hosts_below_it():
    paths = read_topology(
        "SwitchName=s0 Nodes=a[0-3]\nSwitchName=s1 Nodes=b[0-3]\nSwitchName=top Switches=s0,s1", where="t"
    )
    fleet = Fleet.of([*(f"a{n}" for n in range(4)), *(f"b{n}" for n in range(4))], 1, paths)
    plan = planned(fleet, lambda devices: len(devices) > 1 and any(number > 3 for number in devices))
    assert accused(plan) == [("switch", ("s1",))]


@pytest.mark.parametrize("side", [2, 6])
def test_what_connects_two_groups_of_hosts_is_named_without_a_topology(side):
    def crosses(devices):
        return len({number < side for number in devices}) > 1

    hosts = [f"n{i:02}" for i in range(12)]
    plan = planned(Fleet.of(hosts, 1), crosses)
    assert accused(plan) == [("cut", tuple(hosts[:side]))]


@pytest.mark.parametrize(("size", "start", "end"), [(64, 0, 13), (64, 20, 28), (1024, 0, 638), (1024, 97, 129)])
def test_a_network_of_many_hosts_that_has_parted_is_named_and_accuses_no_host(size, start, end):
    hosts = [f"n{i}" for i in range(size)]
    plan = planned(Fleet.of(hosts, 1), lambda devices: len({start <= number < end for number in devices}) > 1)
    assert accused(plan) == [("cut", tuple(sorted(hosts[start:end])))]
    assert plan.round <= 15


def test_five_neighbours_that_are_bad_are_no_parted_network():
    plan = planned(Fleet.of([f"n{i}" for i in range(64)], 1), lambda devices: any(20 <= n < 25 for n in devices))
    assert accused(plan) == [("device", (number,)) for number in range(20, 25)]


@pytest.mark.parametrize("seed", range(3))
def test_a_device_that_fails_in_every_second_try_among_64_takes_few_rounds(seed):
    rng = random.Random(seed)
    plan = planned(Fleet.of([f"n{i}" for i in range(64)], 1), lambda d: 27 in d and rng.random() < 0.5, seed=seed)
    assert accused(plan) == [("device", (27,))]
    assert plan.round <= 40


@pytest.mark.parametrize("least", [4, 8])
def test_a_device_that_fails_in_larger_sets_alone_is_found(least):
    plan = planned(Fleet.of(["a", "b"], 8), lambda devices: 4 in devices and len(devices) >= least)
    assert accused(plan) == [("device", (4,))]


@pytest.mark.parametrize("num_bad", [1, 2])
def test_devices_that_fail_in_sets_of_four_alone_are_found_among_64_hosts(num_bad):
    bad = set(random.Random(num_bad).sample(range(64), num_bad))
    plan = planned(Fleet.of([f"n{i}" for i in range(64)], 1), lambda d: len(d) >= 4 and not bad.isdisjoint(d))
    assert accused(plan) == [("device", (number,)) for number in sorted(bad)]
    assert plan.round <= 40


def test_five_bad_devices_of_eight_are_no_fault_of_the_probe():
    plan = planned(Fleet.of([f"n{i}" for i in range(8)], 1), lambda d: min(d) < 5)
    assert accused(plan) == [("device", (number,)) for number in range(5)]


def test_five_devices_of_eight_that_fail_in_company_are_told_from_a_probe_that_fails_everywhere():
    plan = planned(Fleet.of([f"n{i}" for i in range(8)], 1), lambda d: len(d) > 1 and not {0, 2, 3, 4, 6}.isdisjoint(d))
    assert accused(plan) == [("device", (number,)) for number in (0, 2, 3, 4, 6)]
    assert len(plan.results) <= 40


def test_a_second_device_that_fails_now_and_then_is_looked_for_beside_the_first():
    rng = random.Random(0)
    plan = planned(Fleet.of(["box"], 3), lambda d: any(n in d and rng.random() < 0.3 for n in (1, 2)))
    assert accused(plan) == [("device", (1,)), ("device", (2,))]


def test_two_groups_with_slow_links_between_them_are_told_from_slow_ends():
    fleet = Fleet.of(list("abcdefgh"), 1)

    def numbers(slow) -> Numbers:
        found = Numbers(fleet)
        rng = random.Random(1)
        for turn in range(7):
            for pair in circle_round(range(8), turn):
                value = 100 * (1 + rng.gauss(0, 0.02)) * (0.5 if slow(*pair) else 1.0)
                found.learn(
                    turn,
                    Result(devices=pair, outcome=SetOutcome.PASS, seconds=1.0, values=dict.fromkeys(pair, value)),
                )
        return found

    side, figure = numbers(lambda a, b: (a < 4) != (b < 4)).cut()
    assert (side, round(figure.share, 1)) == (frozenset("abcd"), 0.5)
    assert numbers(lambda a, b: False).cut() is None
    assert numbers(lambda a, b: 3 in (a, b)).cut() is None, "one slow host"
    assert numbers(lambda a, b: (a, b) == (2, 5)).cut() is None, "one slow link"


@pytest.mark.parametrize("num_bad", [1, 2, 5])
def test_a_thousand_hosts_take_two_rounds_of_pairs(num_bad):
    bad = set(random.Random(num_bad).sample(range(1024), num_bad))
    plan = planned(Fleet.of([f"n{i}" for i in range(1024)], 1), lambda devices: not bad.isdisjoint(devices))
    assert accused(plan) == [("device", (number,)) for number in sorted(bad)]
    assert plan.round <= 4


@pytest.mark.parametrize("seed", range(10))
def test_chance_failures_accuse_nobody(seed):
    rng = random.Random(seed)
    plan = planned(Fleet.of(["box"], 4), lambda devices: rng.random() < 1e-3, seed=seed)
    assert accused(plan) == []


def test_a_line_without_a_switch_is_refused():
    with pytest.raises(ConfigError, match="names no switch"):
        read_topology("Nodes=a,b", where="topology.conf")


def words(plan: Plan) -> list[str]:
    examination = Examination(fleet=plan.fleet, plans=(plan,), seconds=1.0)
    return [
        f"{each.code} {each.severity.value} {each.certainty.value} {each.message}" for each in findings_of(examination)
    ]


@pytest.mark.parametrize(
    ("side", "named", "message", "advice"),
    [
        ("ab", tuple("ab"), "what connects a, b with the others fails", "leave a, b out"),
        ("cdefgh", tuple("ab"), "what connects a, b with the others fails", "leave a, b out"),
        (
            "efgh",
            tuple("abcdefgh"),
            "what connects a, b, c, d with e, f, g, h fails",
            "leave a, b, c, d, or the",
        ),
    ],
)
def test_of_a_parted_network_the_smaller_side_is_named_and_of_equal_ones_both(side, named, message, advice):
    fleet = Fleet.of("abcdefgh", 1)
    plan = planned(fleet, lambda devices: len({fleet.devices[n].host in side for n in devices}) > 1)
    (finding,) = findings_of(Examination(fleet=fleet, plans=(plan,), seconds=1.0))
    assert (finding.code, finding.hosts) == ("E104", named)
    assert finding.message.startswith(message)
    assert finding.next.startswith(advice)


def test_the_messages_are_these():
    box, hosts = Fleet.of(["box"], 4), Fleet.of(["a", "b", "c", "d"], 2)
    paths = {host: (switch, "top") for switch, all_ in (("s0", "abcd"), ("s1", "efgh")) for host in all_}

    def crosses(devices):
        return len({hosts.devices[n].host for n in devices}) > 1 and any(hosts.devices[n].host == "c" for n in devices)

    found = [
        *words(planned(box, lambda devices: 3 in devices and len(devices) > 1)),
        *words(planned(box, lambda devices: {1, 2} <= set(devices))),
        *words(planned(hosts, crosses)),
        *words(planned(Fleet.of("abcdefgh", 1, paths), lambda devices: len(devices) > 1 and max(devices) > 3)),
        *words(planned(Fleet.of(["box"], 2), lambda devices: len(devices) > 1)),
        *words(planned(box, lambda devices: True)),
        *words(planned(Fleet.of(["box"], 2), lambda devices: False)),
    ]
    assert found == [
        "E101 error observed device box:3 fails when it works with others (probe sim)",
        "E102 error observed the link between box:1 and box:2 fails (probe sim)",
        "E103 error observed host c fails when it works with others (probe sim)",
        "E104 error observed switch s1 fails (probe sim)",
        "E105 warning unknown probe sim failed, and which is bad was not told: device box:0, device box:1, "
        "host box, link box:0 - box:1",
        "E106 error inferred probe sim fails everywhere, so that it accuses no device",
        "E108 notice observed nothing bad was found in 1 s",
    ]


@pytest.mark.parametrize("num_hosts", [8, 64])
def test_suspects_are_tested_first_with_peers_that_nobody_named(num_hosts):
    """The judge named two hosts and one is bad: two tests by pairs tell which, and the other is cleared."""
    fleet = Fleet.of([f"n{i}" for i in range(num_hosts)], 1)
    plan = Plan(fleet, ProbePlan(name="sim"), random.Random(0), suspected=frozenset({2, 3}), is_quick=True)
    first = plan.next_round()
    assert first[:2] == [(0, 2), (1, 3)]
    while sets := first if plan.round == 0 else plan.next_round():
        plan.learn(
            [
                Result(devices=devices, outcome=SetOutcome.FAIL if 3 in devices else SetOutcome.PASS, seconds=1.0)
                for devices in sets
            ]
        )
    assert accused(plan) == [("device", (3,))]
    assert plan.round <= 4


def test_a_slow_link_that_is_tried_again_and_again_does_not_make_its_ends_slow():
    numbers = Numbers(Fleet.of(list("abcdef"), 1))
    rounds = [((0, 5), (1, 4), (2, 3)), ((0, 4), (5, 3), (1, 2)), ((0, 3), (4, 2), (5, 1))] + [((1, 4),)] * 5
    for number, pairs in enumerate(rounds * 2):
        for pair in pairs:
            value = (40.0 if pair == (1, 4) else 100.0) * (1.001 if number % 2 else 0.999)
            ends = tuple(sorted(pair))
            result = Result(devices=ends, outcome=SetOutcome.PASS, seconds=1.0, values=dict.fromkeys(ends, value))
            numbers.learn(number, result)
    assert not any(figure.is_slow for figure in numbers.ends().values())
    assert [pair for pair, figure in numbers.cells().items() if figure.is_slow] == [(1, 4)]


def measured(num: int, seed: int, *, rounds: int = 10, slow: int | None = None) -> Numbers:
    """Rounds of single devices with 1% noise; `slow` is 5% slower."""
    found, rng = Numbers(Fleet.of([f"n{i}" for i in range(num)], 1)), random.Random(seed)
    for turn in range(rounds):
        for number in range(num):
            value = 100 * (1 + rng.gauss(0, 0.01)) * (0.95 if number == slow else 1.0)
            result = Result(devices=(number,), outcome=SetOutcome.PASS, seconds=1.0, values={number: value})
            found.learn(turn, result)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_a_host_5_percent_slow_of_64_is_named_and_none_where_there_is_only_noise(seed):
    slow = seed * 3
    named = measured(64, seed, slow=slow).devices()
    assert [number for number, figure in named.items() if figure.is_slow] == [slow]
    assert named[slow].share == pytest.approx(0.05, abs=0.01)
    assert not any(figure.is_slow for figure in measured(64, seed).devices().values())


@pytest.mark.parametrize("seed", range(5))
def test_a_link_at_half_speed_among_64_hosts_is_a_cell_and_no_row(seed):
    found, rng = Numbers(Fleet.of([f"n{i}" for i in range(64)], 1)), random.Random(seed)
    bad = tuple(sorted(rng.sample(range(64), 2)))
    for turn in range(63):
        for pair in circle_round(range(64), turn):
            for again in range(5 if pair == bad else 1):
                value = 100 * (1 + rng.gauss(0, 0.02)) * (0.5 if pair == bad else 1.0)
                values = dict.fromkeys(pair, value)
                found.learn(turn + again, Result(devices=pair, outcome=SetOutcome.PASS, seconds=1.0, values=values))
    assert [pair for pair, figure in found.cells().items() if figure.is_slow] == [bad]
    assert not any(figure.is_slow for figure in found.ends().values())


@pytest.mark.parametrize(
    "bad", [((4, 7), (6, 7)), ((0, 2), (2, 3)), ((1, 2), (2, 3)), ((2, 3), (2, 4)), ((2, 3), (2, 5)), ((2, 3), (2, 7))]
)
def test_two_bad_links_of_one_device_do_not_accuse_it_when_they_are_the_first_two_tested(bad):
    plan = planned(Fleet.of(["box"], 8), lambda devices: any(set(link) <= set(devices) for link in bad))
    assert accused(plan) == [("link", link) for link in bad]


@pytest.mark.parametrize("seed", range(3))
def test_a_bad_device_beside_busy_ones_is_told_by_those_that_are_free(seed):
    fleet = Fleet.of(["a", "b", "c", "d"], 8)
    plan = planned(
        fleet, lambda devices: 22 in devices and len(devices) > 1, busy=lambda n, test: 16 <= n <= 20, seed=seed
    )
    assert accused(plan) == [("device", (22,))]
    assert plan.round <= 8


def test_chance_failures_of_single_devices_are_no_parted_network():
    fleet = Fleet.of([f"n{i}" for i in range(64)], 1)
    plan = Plan(fleet, ProbePlan(name="sim", talk=Talk.ALONE), random.Random(0))
    tests = 0
    while plan.round < 60 and (sets := plan.next_round()):
        assert all(len(devices) == 1 for devices in sets)
        tests += len(sets)
        bad = {3, 40} if plan.round == 0 else set()
        plan.learn(
            [
                Result(
                    devices=devices,
                    outcome=SetOutcome.FAIL if set(devices) & bad else SetOutcome.PASS,
                    seconds=1.0,
                    links=Links.ALL,
                    values={n: 80.0 if n == 9 else 100.0 + n % 3 for n in devices},
                )
                for devices in sets
            ]
        )
    assert accused(plan) == [("device", (9,))]


@pytest.mark.parametrize("seed", range(2))
def test_a_cable_that_two_failed_sets_have_in_common_by_chance_is_tested_by_itself_before_it_is_accused(seed):
    bad = [{11, 32}, {11, 52}, {25, 6}, {39, 57}, {5, 54}]
    fleet = Fleet.of([f"n{i}" for i in range(64)], 2)
    plan = planned(fleet, lambda devices: any(pair <= {n // 2 for n in devices} for pair in bad), seed=seed)
    assert {key for _, key in accused(plan)} <= {tuple(sorted(f"n{n}" for n in pair)) for pair in bad}
    pairs = [set(result.devices) for _, result in plan.results if len(result.devices) == 2]
    for _, key in accused(plan):
        assert any({f"n{n // 2}" for n in pair} == set(key) for pair in pairs)
