"""Which process is which rank: by what both tell, and nobody where nothing chooses."""

import itertools

import pytest

from emberward.diagnose import identify
from emberward.events import HostState, Observation
from emberward.findings import Certainty

STEP = ("train.py:41", "train.py:90")
SAVE = ("train.py:55", "train.py:90")


def waits(pid: int, places: tuple[str, ...] = STEP, operation: str = "all_reduce") -> Observation:
    return Observation(pid=pid, state=HostState.COLLECTIVE, operation=operation, places=places)


def sleeps(pid: int, line: str = "data.py:7") -> Observation:
    return Observation(pid=pid, state=HostState.SLEEP, places=(line, "train.py:90"))


def called(rank: int, places: tuple[str, ...] = STEP, operation: str = "allreduce") -> Observation:
    return Observation(rank=rank, has_calls=True, operation=operation, places=places)


def idle(rank: int) -> Observation:
    return Observation(rank=rank, has_calls=True)


def ranks_of(processes, known) -> list[int | None]:
    return [identity.rank for identity in identify(processes, known)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_one_process_in_no_call_is_the_one_rank_without_an_open_call_whatever_the_pids(order):
    known = {rank: called(rank) for rank in range(4)}
    known[order[0]] = idle(order[0])
    processes = [waits(101), waits(102), waits(103), waits(104)]
    processes[order[1]] = sleeps(101 + order[1])
    assert ranks_of(processes, known)[order[1]] == order[0]
    assert sorted(ranks_of(processes, known)) == [0, 1, 2, 3]


@pytest.mark.parametrize("copies", [1, 2, 4, 64])
def test_a_job_of_more_ranks_is_brought_together_alike(copies):
    known = {rank: called(rank, SAVE if rank % 4 == 2 else STEP) for rank in range(4 * copies)}
    processes = [waits(900 - rank, SAVE if rank % 4 == 2 else STEP) for rank in known]
    found = ranks_of(processes, known)
    assert [rank % 4 == 2 for rank in found] == [rank % 4 == 2 for rank in known]
    assert sorted(found) == sorted(known)


def test_pids_order_the_ranks_where_all_fit_alike():
    found = identify([sleeps(12, "a.py:1"), sleeps(11, "a.py:2")], {0: idle(0), 1: idle(1)})
    assert [each.rank for each in found] == [1, 0]
    assert {each.certainty for each in found} == {Certainty.INFERRED}


def test_two_processes_that_differ_stay_a_set_where_neither_calls_nor_pids_choose():
    processes = [sleeps(11, "a.py:1"), sleeps(12, "a.py:2"), waits(13)]
    found = identify(processes, {0: idle(0), 1: idle(1), 2: idle(2), 3: called(3)})
    assert [each.rank for each in found] == [None, None, 3]
    assert found[0].candidates >= {0, 1, 2}


def test_a_dump_that_is_missing_leaves_its_rank_to_the_process_that_fits_no_other():
    known = {0: called(0), 1: None, 2: called(2)}
    assert ranks_of([waits(7), waits(8), sleeps(9)], known)[2] == 1


def test_a_thread_handle_is_proof_against_any_order():
    processes = [
        Observation(pid=pid, state=HostState.COLLECTIVE, places=STEP, threads=frozenset({name}))
        for pid, name in ((1, "b"), (2, "a"))
    ]
    known = {
        rank: Observation(rank=rank, has_calls=True, operation="allreduce", places=STEP, threads=frozenset({name}))
        for rank, name in ((0, "a"), (1, "b"))
    }
    found = identify(processes, known)
    assert [(each.rank, each.certainty) for each in found] == [(1, Certainty.OBSERVED), (0, Certainty.OBSERVED)]


def test_a_rank_that_is_told_is_kept_and_one_of_another_operation_is_not_taken():
    told = Observation(rank=1, pid=5, state=HostState.COLLECTIVE, places=STEP)
    known = {0: called(0, STEP, "allreduce"), 1: called(1), 2: called(2, STEP, "barrier")}
    assert ranks_of([told, waits(4, STEP, "barrier"), waits(6)], known) == [1, 2, 0]


def test_the_pids_of_two_hosts_are_ordered_host_by_host():
    processes = [
        Observation(pid=pid, host=host, state=HostState.COLLECTIVE, operation="all_reduce", places=(line, "m.py:1"))
        for pid, host, line in ((50, "b", "m.py:9"), (51, "b", "m.py:8"), (7, "a", "m.py:7"), (9, "a", "m.py:7"))
    ]
    known = {rank: called(rank, (line, "m.py:1")) for rank, line in enumerate(("m.py:9", "m.py:8", "m.py:7", "m.py:7"))}
    assert ranks_of(processes, known) == [0, 1, 2, 3]
