"""Which hosts make the next attempt: quorums, the register, and a collector that forgot it."""

import itertools
from dataclasses import replace

import pytest

from emberward.findings import host_down
from emberward.supervise._agreement import Agreed, Crew, Register, Seat
from emberward.supervise._mailbox import FolderMailbox

LOST = host_down("c", "does not answer", next="look at it")
CREW = Crew(num_hosts=3, first="a")
FIRST = Agreed(number=1, session="s1", out={"c": LOST.to_json()}, crew=CREW)


@pytest.mark.parametrize("num_hosts", [1, 2, 3, 4, 5])
def test_any_two_quorums_have_a_host_in_common_and_all_hosts_are_one(num_hosts):
    hosts = "abcde"[:num_hosts]
    crew = Crew(num_hosts=num_hosts, first="a")
    every = [set(some) for size in range(num_hosts + 1) for some in itertools.combinations(hosts, size)]
    quorums = [some for some in every if crew.is_quorum(some)]
    assert set(hosts) in quorums
    assert all(one & other for one in quorums for other in quorums)
    assert not Crew().is_quorum(set()), "nobody is no quorum of nobody"


def held(entry: Agreed) -> dict:
    return entry.to_json()


def test_of_two_proposals_the_first_is_entered_and_counts_once_most_hosts_hold_it():
    register = Register("s1")
    nothing = held(Agreed(crew=CREW))
    register.take("a", nothing, None)
    register.take("b", nothing, held(FIRST))
    register.take("a", nothing, held(replace(FIRST, out={})))
    assert register.said() == (FIRST, False)
    register.take("a", held(FIRST), None)
    assert register.said() == (FIRST, False)
    register.take("b", held(FIRST), None)
    assert register.said() == (FIRST, True)


def test_a_collector_that_began_anew_takes_nothing_before_a_quorum_has_told_it_what_counted():
    register = Register("s2")
    nothing = held(Agreed(crew=CREW))
    register.take("a", nothing, held(replace(FIRST, out={})))
    assert register.said() is None, "one of three"
    register.take("b", held(FIRST), None)
    assert register.said() == (replace(FIRST, session="s2"), False), "what b holds, and not what a proposed"
    register.take("a", nothing, held(replace(FIRST, out={})))
    assert register.said()[0].out == FIRST.out


def wishes(*hosts: str, out: dict | None = None) -> dict:
    return {host: {"wish": {"number": 1, "out": out or {}}} for host in hosts}


def test_a_minority_proposes_nothing_and_most_hosts_are_never_left_out():
    seat = Seat("a", Agreed())
    seat.hear(None, {"a": {}, "b": {}, "c": {}}, hears_all=True)
    assert seat.agreed.crew == CREW
    # The others are not heard any more: they are known all the same.
    seat.hear(None, wishes("a", out={"b": LOST.to_json(), "c": LOST.to_json()}), hears_all=True)
    assert seat.proposal is None
    seat.hear(None, wishes("a", "b", out={"c": LOST.to_json()}), hears_all=True)
    assert list(seat.proposal.out) == ["c"]
    seat.hear(None, wishes("a", "b", out={"a": LOST.to_json(), "b": LOST.to_json()}), hears_all=True)
    assert seat.proposal.out == {}, "findings that contradict each other leave nobody out"


def test_nobody_waits_for_hosts_that_have_ended_their_part():
    seat = Seat("b", Agreed(crew=CREW))
    seat.hear(None, {**wishes("b"), "a": {"is_done": True}}, hears_all=True)
    assert not seat.is_hopeless, "c may wish it yet"
    seat.hear(None, {**wishes("b"), "a": {"is_done": True}, "c": {"is_done": True}}, hears_all=True)
    assert seat.is_hopeless
    seat = Seat("b", Agreed(crew=CREW, out={"c": LOST.to_json()}))
    seat.hear(None, {**wishes("b"), "c": {"is_done": True}}, hears_all=True)
    assert not seat.is_hopeless, "c was left out"


def test_a_host_begins_what_counts_and_a_late_one_the_newest():
    seat = Seat("b", Agreed(crew=CREW))
    seat.hear((FIRST, False), {}, hears_all=False)
    assert (seat.next, seat.agreed.out) == (None, FIRST.out)
    seat.hear((FIRST, True), {}, hears_all=False)
    assert seat.next.number == 1
    assert seat.agreed.crew.num_hosts == 2
    late = Seat("b", Agreed(crew=CREW))
    late.hear((replace(FIRST, number=5), True), {}, hears_all=False)
    assert late.next.number == 5
    late.hear((FIRST, True), {}, hears_all=False)
    assert late.agreed.number == 5, "an older entry is no news"


def test_a_folder_keeps_the_first_of_two_entries(tmp_path):
    one, other = (FolderMailbox(tmp_path) for _ in range(2))
    assert one.exchange("a", {"number": 1}).agreed is None
    one.exchange("a", {"number": 2}, FIRST)
    assert other.exchange("b", {"number": 1}, replace(FIRST, out={})).agreed == (FIRST, True)
