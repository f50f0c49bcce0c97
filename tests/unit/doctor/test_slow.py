"""Links that their numbers show to be slow: one host's link is, what parts all hosts alike is their build."""

import itertools
import random

import pytest

from emberward.doctor import Fleet, Links, Result, SetOutcome
from emberward.doctor._faults import Kind
from emberward.doctor._numbers import Numbers
from emberward.doctor._slow import slow_parts

HOSTS, DEVICES = 3, 6


def figures_of(is_slow, *, tried=lambda a, b: True) -> tuple[Fleet, Numbers]:
    """Eight rounds of all pairs of a host, and of pairs over hosts; `is_slow` and `tried` take numbers of devices."""
    rng = random.Random(1)
    fleet = Fleet.of([f"n{i}" for i in range(HOSTS)], DEVICES)
    numbers = Numbers(fleet)
    pairs = [pair for pair in itertools.combinations(range(HOSTS * DEVICES), 2) if tried(*pair)]
    for round_ in range(8):
        for pair in pairs:
            value = (100 if pair[0] // DEVICES == pair[1] // DEVICES else 30) * (0.8 if is_slow(*pair) else 1.0)
            values = dict.fromkeys(pair, value * (1 + rng.gauss(0, 0.005)))
            numbers.learn(
                round_, Result(devices=pair, outcome=SetOutcome.PASS, seconds=1.0, links=Links.ALL, values=values)
            )
    return fleet, numbers


def sockets(a: int, b: int) -> bool:
    """Whether the two of one host lie on different sockets."""
    return a // DEVICES == b // DEVICES and (a % DEVICES < 3) != (b % DEVICES < 3)


def links_of(fleet: Fleet, numbers: Numbers) -> list[tuple[int, ...]]:
    return [each.part.key for each in slow_parts(fleet, numbers) if each.part.kind is Kind.LINK]


def test_a_slow_link_of_one_host_is_named():
    assert links_of(*figures_of(lambda a, b: (a, b) == (7, 9))) == [(7, 9)]


@pytest.mark.parametrize("hosts_tried", [HOSTS, 1])
def test_links_that_two_sockets_slow_in_all_hosts_are_their_build(hosts_tried):
    def tried(a: int, b: int) -> bool:
        """A third of the links over both sockets, so that they are the fewer; of one host or of all."""
        is_over = sockets(a, b)
        return not is_over or (b - a == 3 and b < hosts_tried * DEVICES)

    fleet, numbers = figures_of(sockets, tried=tried)
    assert any(each.is_slow for each in numbers.cells().values()), "their numbers alone would accuse"
    assert links_of(fleet, numbers) == []
