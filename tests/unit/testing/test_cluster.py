"""Simulated clusters: real agents, collector and policy on a fake clock and network; what has to hold holds."""

import pytest

from emberward.supervise import PostOffice
from emberward.testing import ClusterSimulation, Disturbance, Trouble


@pytest.mark.parametrize("disturbance", Disturbance)
@pytest.mark.parametrize("trouble", Trouble)
def test_every_trouble_of_a_small_cluster_keeps_the_invariants(trouble, disturbance):
    course = ClusterSimulation(1, num_hosts=5, trouble=trouble, disturbance=disturbance).run()
    assert course.broken == (), course
    if trouble in (Trouble.POWER, Trouble.CUT):
        assert course.agreed_after_s > course.named_after_s
    if trouble in (Trouble.NOTHING, Trouble.SLOW):
        assert course.num_attempts == 1
    else:
        assert course.num_attempts > 1


BROKE = [
    (977, 4), (53, 10), (65, 4), (109, 10), (114, 5), (359, 16), (431, 16), (833, 4), (1067, 6), (1241, 4), (2112, 3),
    (2159, 16),
]  # fmt: skip


@pytest.mark.parametrize(("seed", "num_hosts"), BROKE)
def test_seeds_that_broke_an_invariant_once_keep_them_all(seed, num_hosts):
    assert ClusterSimulation(seed, num_hosts=num_hosts).run().broken == ()


def test_of_many_hosts_a_few_judge_and_all_follow():
    course = ClusterSimulation(3, num_hosts=48, trouble=Trouble.CUT, disturbance=Disturbance.COLLECTOR).run()
    assert (course.broken, course.num_attempts) == ((), 2)


def test_a_seed_is_one_course():
    first, second = (ClusterSimulation(7, num_hosts=4).run() for _ in range(2))
    assert first == second


def test_a_fault_that_is_told_wrongly_breaks_an_invariant(monkeypatch):
    """The checks can fail: a judge that names the first host for whatever befalls a link."""
    monkeypatch.setattr("emberward.supervise._nodes._split", lambda group, core, up: wrong(up))

    def wrong(up):
        from emberward.supervise import _nodes

        first, *others = sorted(up, key=lambda post: post.host)
        return _nodes._host_cut(first, others)

    course = ClusterSimulation(1, num_hosts=6, trouble=Trouble.SPLIT, disturbance=Disturbance.NOTHING).run()
    assert any(each.startswith("1: ") for each in course.broken), course


def test_a_register_that_waits_for_no_quorum_parts_the_hosts(monkeypatch):
    """The checks can fail: what one host proposes counts at once."""
    monkeypatch.setattr("emberward.supervise._agreement.Crew.is_quorum", lambda crew, hosts: len(hosts) > 0)
    broken = [
        each
        for seed in range(6)
        for each in ClusterSimulation(seed, num_hosts=6, trouble=Trouble.PROGRAM, disturbance=Disturbance.PARTED)
        .run()
        .broken
    ]
    assert any(each.startswith("5: ") for each in broken), broken


def letter(host: str, number: int, **more) -> dict:
    return {"host": host, "writer": host, "number": number, "session": "s", "since": 0, "changes": {}, **more}


def test_a_collector_tells_what_has_changed_since_the_last_answer():
    office = PostOffice("s")
    first = office.take(letter("a", 1, changes={"ranks": [0], "port": 5}), now_s=0.0)
    assert first["posts"] == {"a": {"ranks": [0], "port": 5}}
    office.take(letter("b", 1, changes={"ranks": [1]}), now_s=0.5)
    again = office.take(letter("a", 2, since=first["version"]), now_s=1.0)
    assert again["posts"] == {"b": {"ranks": [1]}, "a": {"renewed": True}}
    assert office.take(letter("a", 3, since=again["version"]), now_s=2.0)["posts"] == {}
    assert office.take(letter("a", 4, since=again["version"]), now_s=9.0)["silent_s"] == {"b": 8.5}


def test_a_late_letter_is_not_taken_and_a_host_that_began_anew_is():
    office = PostOffice("s")
    office.take(letter("a", 1, changes={"port": 1}), now_s=0.0)
    office.take(letter("a", 3, changes={"port": 3}), now_s=1.0)
    late = office.take(letter("a", 2, changes={"port": 2}), now_s=2.0)
    assert late["posts"]["a"]["port"] == 3
    anew = office.take(letter("a", 1, writer="another", changes={"port": 9}), now_s=3.0)
    assert anew["posts"]["a"]["port"] == 9
    office.take(letter("a", 4, changes={"port": 4}), now_s=4.0)
    assert office.take(letter("b", 1), now_s=5.0)["posts"]["a"]["port"] == 9


def test_a_collector_that_began_anew_asks_for_whole_posts():
    office = PostOffice("new")
    assert office.take(letter("a", 7), now_s=0.0) == {"session": "new", "wants_whole": True}
    with pytest.raises(ValueError, match="host, writer and number"):
        office.take({"host": "a"}, now_s=0.0)
