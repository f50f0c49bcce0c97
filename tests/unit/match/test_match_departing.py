"""Who departs where sends and receives do not pair up: named where the rest of the program tells, and only there."""

import pytest

from emberward.events import Lane, LaneKind, Observer, Recv, Send, Site, TraceBuilder
from emberward.match import check

HOST = Lane(kind=LaneKind.HOST)


def ring(size, steps):
    """Each rank passes on `steps[rank]` times, in one batch with its receive."""
    return {
        rank: [
            (10, kind(peer=(rank + hop) % size, batch=step, dtype="float32", numel=4))
            for step in range(steps[rank])
            for kind, hop in ((Send, 1), (Recv, -1))
        ]
        for rank in range(size)
    }


def pipeline(counts, *, forgets=None, sizes=None):
    """Each stage handles `counts[rank]` micro-batches; `forgets` sends one activation less."""
    last = len(counts) - 1
    programs = {}
    for rank, count in enumerate(counts):
        numel = 4 if sizes is None else sizes[rank]
        events = []
        for mb in range(count):
            if rank > 0:
                events.append((20, Recv(peer=rank - 1, dtype="float32", numel=4)))
            if rank < last and not (rank == forgets and mb == count - 1):
                events.append((21, Send(peer=rank + 1, dtype="float32", numel=4)))
        for _ in range(count):
            if rank < last:
                events.append((22, Recv(peer=rank + 1, dtype="float32", numel=4)))
            if rank > 0:
                events.append((23, Send(peer=rank - 1, dtype="float32", numel=numel)))
        programs[rank] = events
    return programs


def errors_of(programs):
    builder = TraceBuilder(len(programs), Observer.DRY_RUN)
    for rank, events in programs.items():
        builder.observe(rank)
        for line, body in events:
            builder.add(rank, HOST, body, site=Site(file="train.py", line=line))
    return [
        finding for finding in check(builder.build(), with_departing=True).findings if finding.code in ("M102", "M105")
    ]


@pytest.mark.parametrize(
    ("programs", "culprits", "site"),
    [
        (ring(4, [3, 3, 2, 3]), (2,), "train.py:10"),
        (ring(5, [4, 3, 4, 3, 4]), (1, 3), "train.py:10"),
        (pipeline([4, 4, 4, 4], forgets=1), (1,), "train.py:21"),
        (pipeline([4, 4], forgets=0), (0,), "train.py:21"),
        (pipeline([4, 3, 3, 4]), (1, 2), "train.py:20"),
        (pipeline([4, 3, 3, 3, 4]), (1, 2, 3), "train.py:20"),
    ],
    ids=["leaves a ring", "two leave a ring", "sends one less", "sends one less of two", "middle", "longer middle"],
)
def test_the_ranks_whose_transfers_depart_are_named(programs, culprits, site):
    found = errors_of(programs)
    assert {finding.culprit_ranks for finding in found} == {culprits}
    assert found[0].site == site


@pytest.mark.parametrize("programs", [ring(2, [3, 2]), pipeline([4, 3])], ids=["a ring of two", "two stages"])
def test_two_ranks_that_differ_in_all_are_no_majority(programs):
    found = errors_of(programs)
    assert found
    assert {finding.culprit_ranks for finding in found} == {()}


@pytest.mark.parametrize("programs", [ring(4, [3] * 4), pipeline([4] * 4), pipeline([2, 2])])
def test_transfers_that_pair_up_are_no_finding(programs):
    assert errors_of(programs) == []


@pytest.mark.parametrize(
    ("sizes", "culprits"), [((4, 4, 6, 4), (2,)), ((4, 4, 4, 4), None)], ids=["another size", "one size"]
)
def test_the_end_whose_size_no_other_transfer_has_is_named(sizes, culprits):
    found = errors_of(pipeline([2] * 4, sizes=sizes))
    assert [finding.culprit_ranks for finding in found] == ([] if culprits is None else [culprits])
