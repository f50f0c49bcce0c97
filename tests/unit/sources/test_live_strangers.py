"""What a red team of strange programs taught the live judge: each verdict in its words, and its look-alike."""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit.sources.live_snapshots import (
    ALL_REDUCE,
    PROGRAM,
    entry,
    moment,
    rank_snapshot,
    ring,
    snapshot,
    stack,
    twice,
    waiting,
)

from emberward.diagnose import Frame, ThreadStack
from emberward.diagnose._program import are_branches, callers_in_common, cause_of_leaving, place_in
from emberward.diagnose.live import OpenCall, ProcessState, RankSnapshot, RingFacts, Snapshot, WaitingIn
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.sources.dumps import source_lines
from emberward.sources.live import Watcher, judge_snapshots

GONE = ProcessState.GONE
LOST = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:7"
TEXT = {20: "    dist.all_reduce(x)", 30: "    time.sleep(40)", 33: "    connection.recv(1024)"}


def line_of(frame: Frame) -> str | None:
    return TEXT.get(frame.line or 0) if frame.file == PROGRAM else None


def judged(*ranks: RankSnapshot, **options: Any) -> tuple[Finding, ...]:
    return judge_snapshots(*twice(*ranks), line_of=line_of, **options)


def transfer(record: int, name: str, *, tag: int = 0, done: bool = False, line: int = 40) -> dict[str, Any]:
    """A send or receive as a ring's row."""
    return {
        **entry(record, line=line, done=done),
        "collective_seq_id": record,
        "profiling_name": f"live:{name}",
        "is_p2p": True,
        "tag": tag,
    }


def with_rows(rows: list[dict[str, Any]], world: int, collectives: int = 0) -> RingFacts:
    """A ring that holds these rows, of which the last is open."""
    facts = ring(num_done=collectives, is_inside=False, world=world)
    status = {"0": {"last_enqueued_collective": collectives, "last_completed_collective": collectives}}
    return replace(facts, flight={**facts.flight, "entries": rows, "pg_status": status}, blocked_record=len(rows))


RECV = (("recv", "/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2500),)


def one_pair(sent: int, received: int) -> tuple[RankSnapshot, RankSnapshot]:
    """Rank 0 in a send to rank 1, which is in a receive from it."""
    return (
        rank_snapshot(0, stack(1000, 40, *RECV), with_rows([transfer(1, "send 0->1", tag=sent)], 2)),
        rank_snapshot(1, stack(1001, 50, *RECV), with_rows([transfer(1, "recv 1<-0", tag=received, line=50)], 2)),
    )


def test_a_send_and_a_receive_with_two_tags_are_an_error_in_these_words():
    (finding,) = judged(*one_pair(1, 2))
    assert finding.code == "H150"
    assert finding.message == (
        "rank 0 sends to rank 1 with tag 1 at train.py:40, and rank 1 receives from it with tag 2 at train.py:50: "
        "the two never meet"
    )
    assert (finding.kind, finding.cause, finding.severity) == (Kind.MISMATCH, Cause.UNMATCHED_P2P, Severity.ERROR)


def transfers(name: str, tags: list[int], line: int) -> RingFacts:
    """A rank's transfers to or from one peer, of which the last is open."""
    rows = [transfer(n, name, tag=tag, done=n < len(tags), line=line) for n, tag in enumerate(tags, 1)]
    return with_rows(rows, 2)


@pytest.mark.parametrize(
    ("sent", "received", "who"),
    [
        ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7], (1,)),
        ([7, 7, 7, 7, 7, 8], [7, 7, 7, 7, 7, 7], (0,)),
        ([0, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 1], (0,)),
        ([0, 1, 2, 8, 9, 10, 16, 17], [0, 1, 2, 8, 9, 10, 16, 18], (1,)),
        ([1, 2, 3, 4, 5, 9], [1, 2, 3, 4, 5, 7], ()),
        ([1, 2], [1, 3], ()),
    ],
    ids=[
        "a count that ran ahead",
        "another constant",
        "out of turn",
        "out of turn in a step",
        "both left",
        "too few to tell",
    ],
)
def test_the_one_whose_tag_left_its_own_rounds_is_named(sent, received, who):
    (finding,) = judged(
        rank_snapshot(0, stack(1000, 40, *RECV), transfers("send 0->1", sent, 40)),
        rank_snapshot(1, stack(1001, 50, *RECV), transfers("recv 1<-0", received, 50)),
    )
    assert (finding.code, finding.culprit_ranks) == ("H150", who)
    assert finding.site == {(0,): "train.py:40", (1,): "train.py:50", (): None}[who]


def test_a_send_and_a_receive_with_one_tag_are_no_alarm():
    assert [f for f in judged(*one_pair(1, 1)) if f.severity is Severity.ERROR] == []


def test_a_sender_that_has_issued_more_than_was_received_so_far_waits_in_no_ring():
    """Rank 0 waits in the first of two sends, and rank 1 in the receive that this one meets."""
    sends = [transfer(1, "send 0->1", line=40), transfer(2, "send 0->1", line=41)]
    found = judged(
        rank_snapshot(0, stack(1000, 40, *RECV), replace(with_rows(sends, 2), blocked_record=1)),
        rank_snapshot(1, stack(1001, 50, *RECV), with_rows([transfer(1, "recv 1<-0", line=50)], 2)),
    )
    assert [f for f in found if f.kind is Kind.DEADLOCK or f.severity is Severity.ERROR] == []


def sleeping(rank: int, line: int = 30, **changes: Any) -> RankSnapshot:
    facts = ring(num_done=6, is_inside=False, world=2, **changes)
    return rank_snapshot(rank, stack(1000 + rank, line), facts, waiting_in=WaitingIn.NANOSLEEP)


def test_ranks_that_all_sleep_at_one_line_are_a_notice_in_these_words():
    (finding,) = judged(sleeping(0), sleeping(1))
    assert finding.code == "H151"
    assert (
        finding.message
        == "every rank stands still alike: each sleeps in step() at train.py:30, and none waits for a peer"
    )
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.SLEEP, (0, 1), Severity.NOTICE)


def at_its_end(waiting_in: WaitingIn, *, has_ended: bool = True, beat_s: float = 1.0) -> tuple[Finding, ...]:
    """What is said of two ranks of which one is gone and the other one stands after its calls."""
    over = replace(ring(num_done=6, is_inside=False, world=2), has_ended=has_ended, heartbeat_age_s=7.0)
    facts = replace(ring(num_done=6, is_inside=False, world=2), heartbeat_age_s=beat_s)
    last = rank_snapshot(1, stack(1001, 31), facts, waiting_in=waiting_in)
    return judged(rank_snapshot(0, None, over, state=GONE), last)


def test_a_rank_that_cannot_end_when_the_others_have_is_an_error_in_these_words():
    (finding,) = at_its_end(WaitingIn.JOIN)
    assert (finding.code, finding.severity, finding.culprit_ranks) == ("H153", Severity.ERROR, (1,))
    assert finding.message == (
        "rank 1 does not end, and the others have: it waits for a lock, an event or a thread in step() at train.py:31"
    )
    (held,) = at_its_end(WaitingIn.JOIN, beat_s=9.0)
    assert held.message.endswith("it is in a native call that keeps the interpreter's lock in step() at train.py:31")


@pytest.mark.parametrize(
    "found",
    [
        at_its_end(WaitingIn.NANOSLEEP),
        at_its_end(WaitingIn.READ),
        at_its_end(WaitingIn.FUTEX_TIMED),
        at_its_end(WaitingIn.FUTEX_SHARED, beat_s=9.0),
    ],
    ids=["sleeps", "reads", "has a time-out", "may be woken from outside"],
)
def test_a_rank_that_may_still_end_is_no_alarm(found):
    assert [finding for finding in found if finding.severity is not Severity.NOTICE] == []


def test_ranks_that_all_sleep_past_their_limit_are_a_warning():
    (finding,) = judged(sleeping(0, still_s=90.0), sleeping(1, still_s=90.0))
    assert (finding.code, finding.severity) == ("H151", Severity.WARNING)


def test_ranks_that_all_compute_or_do_different_things_are_no_finding():
    assert judged(sleeping(0), sleeping(1, line=31)) == ()
    early, late = twice(sleeping(0), sleeping(1))
    busy = replace(late.ranks[1], process=replace(late.ranks[1].process, cpu_ticks=450))
    busy = replace(busy, process=replace(busy.process, threads=(replace(busy.process.threads[0], cpu_ticks=450),)))
    assert judge_snapshots(early, replace(late, ranks={**late.ranks, 1: busy}), line_of=line_of) == ()


def test_a_socket_that_is_read_is_no_receive_from_a_peer():
    """`connection.recv(` is a method of many things; only torch's, or a bare name, is the job's own."""
    facts = ring(num_done=6, is_inside=False)
    reader = rank_snapshot(2, stack(1002, 33), facts, waiting_in=WaitingIn.OTHER)
    (finding,) = judged(waiting(0), waiting(1), waiting(3), reader)
    assert (finding.culprit_ranks, finding.cause, finding.severity) == ((2,), Cause.NETWORK_IO, Severity.NOTICE)


def test_the_rank_that_left_early_is_named_and_not_the_echo():
    left = rank_snapshot(
        1, None, ring(num_done=5, is_inside=False, world=2, moments=(moment("main_exited", "x"),)), state=GONE
    )
    echo = rank_snapshot(
        0, None, ring(num_done=6, is_inside=False, world=2, moments=(moment("exception", LOST),)), state=GONE
    )
    (finding,) = judged(echo, left, exits={0: 1, 1: 0})
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("L102", (1,), Cause.MAIN_EXITED)


def test_ranks_that_end_one_after_the_other_are_no_finding():
    left = rank_snapshot(
        1, None, ring(num_done=6, is_inside=False, world=2, moments=(moment("main_exited", "x"),)), state=GONE
    )
    assert judged(sleeping(0), left, exits={1: 0}) == ()


PROGRAM_TEXT = """\
def train(rank):
    for batch in batches(rank):
        loss = net(batch)
        loss.backward()
    dist.all_reduce(done)


def tell(rank):
    if rank == 0:
        dist.all_reduce(norm)
"""


def aborted(path: Path, *, line: int, other: int, is_new: bool = True) -> tuple[Snapshot, dict[int, int]]:
    """Rank 1 aborted in an all-reduce at `line`; rank 0 lost its connection at line `other`, below Python."""
    facts = ring(num_done=0, is_inside=False, world=2)
    call = OpenCall(text="all_reduce of 8 float32", function="train", file=str(path), line=line, is_new=is_new)
    lost = replace(facts, moments=(moment("exception", LOST, f"{path.name}:{other}"),))
    ranks = (
        rank_snapshot(0, None, lost, state=GONE),
        rank_snapshot(1, None, replace(facts, open_call=call), state=GONE),
    )
    return snapshot(*ranks), {0: 1, 1: -signal.SIGABRT}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "uneven.py"
    path.write_text(PROGRAM_TEXT)
    return path


def test_an_abort_against_a_call_below_python_is_an_error_in_these_words(program):
    seen, exits = aborted(program, line=5, other=4)
    finding = judge_snapshots(seen, seen, line_of=source_lines([]), exits=exits)[0]
    assert finding.code == "H152"
    assert finding.message == (
        "rank 1 was in all_reduce of 8 float32 at uneven.py:5, which met a call below Python that rank 0 made at "
        "uneven.py:4: it has left the loop that they are still in"
    )
    assert (finding.cause, finding.culprit_ranks, finding.severity) == (Cause.UNEVEN_DATA, (1,), Severity.ERROR)
    assert finding.certainty is Certainty.INFERRED


def test_an_abort_against_a_rank_that_was_ended_in_its_backward_is_the_same_error(program):
    """On a busy machine the launcher ends the other rank before its lost connection has raised."""
    seen, exits = aborted(program, line=10, other=4)
    ring_of_other = seen.ranks[0].ring
    assert ring_of_other is not None
    ended = replace(seen.ranks[0], ring=replace(ring_of_other, moments=(), backward=(str(program), 4)))
    finding = judge_snapshots(seen, snapshot(ended, seen.ranks[1]), line_of=source_lines([]), exits={**exits, 0: -15})[
        0
    ]
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H152", Cause.EXTRA_COLLECTIVE, (1,))
    assert "which met a call below Python that rank 0 made at uneven.py:4" in finding.message


def test_an_abort_in_a_backward_that_met_another_call_is_that_rank_s_fault_who_has_left_the_loop(program):
    """Of two calls that differ gloo aborts the smaller one: so the rank that keeps the order may be the one."""
    seen, _ = aborted(program, line=5, other=4)
    in_call, in_backward = seen.ranks[1].ring, seen.ranks[0].ring
    assert in_call is not None
    assert in_backward is not None
    kept = replace(seen.ranks[0], ring=replace(in_backward, moments=(), backward=(str(program), 4)))
    both = snapshot(kept, seen.ranks[1])
    finding = judge_snapshots(both, both, line_of=source_lines([]), exits={0: -signal.SIGABRT, 1: -15})[0]
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H152", Cause.UNEVEN_DATA, (1,))
    assert finding.site == "uneven.py:5"


def test_an_abort_in_a_backward_in_which_the_others_are_too_tells_of_the_abort_alone(program):
    seen, _ = aborted(program, line=5, other=4)
    facts = seen.ranks[0].ring
    assert facts is not None
    ranks = [
        replace(each, ring=replace(facts, moments=(), open_call=None, backward=(str(program), 4)))
        for each in seen.ranks.values()
    ]
    both = snapshot(*ranks)
    found = judge_snapshots(both, both, line_of=source_lines([]), exits={0: -signal.SIGABRT, 1: -15})
    assert [(each.code, each.culprit_ranks) for each in found] == [("L102", (0,))]


def test_an_abort_in_a_call_that_nobody_made_before_is_one_too_many(program):
    seen, exits = aborted(program, line=10, other=4)
    finding = judge_snapshots(seen, seen, line_of=source_lines([]), exits=exits)[0]
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H152", Cause.EXTRA_COLLECTIVE, (1,))


def test_an_abort_in_a_call_that_is_made_in_every_round_names_both_lines_and_accuses_nobody(program):
    seen, exits = aborted(program, line=10, other=4, is_new=False)
    (finding,) = judge_snapshots(seen, seen, line_of=source_lines([]), exits=exits)
    assert (finding.code, finding.kind, finding.culprit_ranks) == ("H152", Kind.MISMATCH, ())
    assert finding.waiting_ranks == (0, 1)
    assert finding.message.endswith(
        "at uneven.py:10, which met a call below Python that rank 0 made at uneven.py:4: nothing tells which of the "
        "two is the odd one"
    )


@pytest.mark.parametrize(("is_new", "cause"), [(False, Cause.SKIPPED_COLLECTIVE), (True, Cause.EXTRA_COLLECTIVE)])
def test_who_was_at_another_line_than_in_each_earlier_round_left_the_order(program, is_new, cause):
    seen, exits = aborted(program, line=10, other=4, is_new=is_new)
    odd = seen.ranks[1]
    assert odd.ring is not None
    there = Frame(function="main", file=str(program), line=4)
    lacking = replace(odd, ring=replace(odd.ring, lacks=there))
    both = snapshot(seen.ranks[0], lacking)
    finding = judge_snapshots(both, both, line_of=lambda _: None, exits=exits)[0]
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H152", cause, (1,))


def aborted_in(path: Path, texts: tuple[str, ...]) -> tuple[Snapshot, dict[int, int]]:
    """All ranks in an open call at one line, of which rank 1 aborted."""
    facts = ring(num_done=0, is_inside=False, world=len(texts))
    ranks = [
        rank_snapshot(
            rank,
            None,
            replace(facts, open_call=OpenCall(text=text, function="train", file=str(path), line=5, is_new=True)),
            state=GONE,
        )
        for rank, text in enumerate(texts)
    ]
    return snapshot(*ranks), {0: 1, 1: -signal.SIGABRT}


@pytest.mark.parametrize(
    ("texts", "culprits", "code", "cause"),
    [
        (("all_reduce of 8 float32", "all_reduce of 6 float32"), (), "M102", Cause.SHAPE),
        (("all_reduce of 8 float32", "all_reduce of 8 float64"), (), "M102", Cause.DTYPE),
        (("broadcast of 8 float32", "all_reduce of 8 float32"), (), "M101", Cause.DIFFERENT_OP),
        # The aborted one is not the odd one for that.
        (("all_reduce of 8 float32", "all_reduce of 6 float32", "all_reduce of 6 float32"), (0,), "M102", Cause.SHAPE),
    ],
)
def test_an_abort_where_open_calls_of_one_line_differ_is_their_mismatch(program, texts, culprits, code, cause):
    seen, exits = aborted_in(program, texts)
    (finding,) = judge_snapshots(seen, seen, line_of=source_lines([]), exits=exits)
    assert (finding.code, finding.cause, finding.culprit_ranks) == (code, cause, culprits)
    assert (finding.site, finding.severity) == ("uneven.py:5", Severity.ERROR)
    assert "uneven.py:5 reads: dist.all_reduce(done)" in finding.evidence


def test_an_abort_in_a_call_that_the_others_make_alike_is_no_mismatch(program):
    seen, exits = aborted_in(program, ("all_reduce of 8 float32", "all_reduce of 8 float32"))
    assert {finding.code for finding in judge_snapshots(seen, seen, line_of=source_lines([]), exits=exits)} == {"L102"}


def in_a_barrier(rank: int, num_received: int) -> RankSnapshot:
    """A rank of three that waits in the first collective, having answered `num_received` transfers of rank 1."""
    rows = [transfer(n, f"recv {rank}<-1", done=True, line=45) for n in range(1, num_received + 1)]
    rows.append({**entry(1, line=60, op="barrier", done=False), "record_id": num_received + 1})
    rows[-1]["ring_number"] = num_received + 1
    facts = ring(num_done=0, is_inside=False, world=3)
    status = {"0": {"last_enqueued_collective": 1, "last_completed_collective": 0}}
    facts = replace(facts, flight={**facts.flight, "entries": rows, "pg_status": status}, blocked_record=len(rows))
    return rank_snapshot(rank, stack(1000 + rank, 60, *ALL_REDUCE), facts)


def sender(num_sent: int) -> RankSnapshot:
    rows = [transfer(n, "send 1->2", done=n < num_sent) for n in range(1, num_sent + 1)]
    return rank_snapshot(1, stack(1001, 40, *RECV), with_rows(rows, 3))


def test_the_peer_that_answered_every_round_but_this_one_is_named():
    (finding,) = judged(in_a_barrier(0, 0), sender(6), in_a_barrier(2, 5))
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H109", Cause.UNMATCHED_P2P, (2,))
    assert finding.message == (
        "rank 1 waits in send of 8 float32 to rank 2 in world[0,1,2] at train.py:40, which its peer does not answer; "
        "rank 2 did in each round before, and is at train.py:60"
    )


def test_without_earlier_rounds_the_rank_in_the_transfer_is_named():
    (finding,) = judged(in_a_barrier(0, 0), sender(1), in_a_barrier(2, 0))
    assert (finding.code, finding.culprit_ranks) == ("H109", (1,))


def in_rounds(rank: int, transfers: str, numbers: list[int], *, is_open: bool) -> RankSnapshot:
    """A rank that made so many transfers in each round before a barrier; its last one, or the last barrier, is open."""
    rows: list[dict[str, Any]] = []
    for seq, number in enumerate(numbers, start=1):
        rows += [transfer(0, transfers, done=True, line=45) for _ in range(number)]
        rows.append(entry(seq, line=60, op="barrier", done=seq < len(numbers)))
    if is_open:
        rows[-1:] = []
        rows[-1] |= {"retired": False, "state": "scheduled"}
    rows = [{**row, "record_id": n, "ring_number": n} for n, row in enumerate(rows, start=1)]
    num_done = len(numbers) - 1
    facts = ring(num_done=num_done, is_inside=False, world=3)
    status = {"0": {"last_enqueued_collective": num_done + (not is_open), "last_completed_collective": num_done}}
    facts = replace(facts, flight={**facts.flight, "entries": rows, "pg_status": status}, blocked_record=len(rows))
    call, line = (RECV, 45) if is_open else (ALL_REDUCE, 60)
    return rank_snapshot(rank, stack(1000 + rank, line, *call), facts)


@pytest.mark.parametrize(
    ("sent", "received", "culprit"),
    [([4, 4, 4, 4, 4], [4, 4, 4, 4, 5], 2), ([4, 4, 4, 4, 3], [4, 4, 4, 4, 4], 1)],
    ids=["one receive more than in any round", "one send less"],
)
def test_of_a_pair_the_one_is_named_that_left_its_usual_round(sent, received, culprit):
    ranks = (
        in_rounds(0, "send 0->1", [0] * 5, is_open=False),
        in_rounds(1, "send 1->2", sent, is_open=False),
        in_rounds(2, "recv 2<-1", received, is_open=True),
    )
    (finding,) = judged(*ranks)
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H109", Cause.UNMATCHED_P2P, (culprit,))


def test_a_stage_that_drops_its_answer_is_named_though_a_chain_of_stages_waits_behind_it():
    """Ranks 0 and 1 wait for gradients, one behind the other; rank 2 did not send one and is in the next barrier."""
    waits_for_1 = in_rounds(0, "recv 0<-1", [2, 2, 2, 2, 2], is_open=True)
    ranks = (waits_for_1, two_sided([2, 2, 2, 2, 2]), in_rounds(2, "send 2->1", [2, 2, 2, 2, 1], is_open=False))
    (finding,) = judged(*ranks)
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H109", Cause.UNMATCHED_P2P, (2,))
    assert finding.site == "train.py:60"
    assert finding.waiting_ranks == (0, 1)


def two_sided(
    numbers: list[int], made: str = "recv 1<-2", then: str = "send 1->0", *, is_open: bool = True
) -> RankSnapshot:
    """Rank 1 of three: in each round it makes transfers, each followed by one with another rank."""
    seen = in_rounds(1, made, numbers, is_open=is_open)
    assert seen.ring is not None
    rows = []
    for row in seen.ring.flight["entries"]:
        rows.append(row)
        if row["is_p2p"] and row["retired"]:
            rows.append(transfer(0, then, done=True, line=46))
    rows = [{**row, "record_id": n, "ring_number": n} for n, row in enumerate(rows, start=1)]
    facts = replace(seen.ring, flight={**seen.ring.flight, "entries": rows}, blocked_record=len(rows))
    return replace(seen, ring=facts)


@pytest.mark.parametrize(
    ("fed", "culprit"), [([4, 4, 4, 4, 3], 2), ([4, 4, 4, 4, 4], 1)], ids=["the feeder changed too", "it dropped one"]
)
def test_who_made_fewer_transfers_as_its_feeder_did_is_innocent(fed, culprit):
    """Rank 0 feeds rank 1, which passes on to rank 2: who did not change with the others expects one too many."""
    passes_on = two_sided([4, 4, 4, 4, 3], "recv 1<-0", "send 1->2", is_open=False)
    feeder, last = in_rounds(0, "send 0->1", fed, is_open=False), in_rounds(2, "recv 2<-1", [4] * 5, is_open=True)
    (finding,) = judged(feeder, passes_on, last)
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H109", Cause.UNMATCHED_P2P, (culprit,))


def around_a_ring(rank: int, peer: int) -> RankSnapshot:
    """One of four that sends to the next rank in each round, and now to `peer`."""
    rows = [transfer(n, f"send {rank}->{(rank + 1) % 4}", done=True) for n in range(1, 6)]
    rows.append(transfer(6, f"send {rank}->{peer}"))
    return rank_snapshot(rank, stack(1000 + rank, 41, *RECV), with_rows(rows, 4))


def test_of_a_ring_of_transfers_the_rank_that_turned_to_another_peer_is_named():
    (finding,) = judged(*(around_a_ring(rank, 0 if rank == 2 else (rank + 1) % 4) for rank in range(4)))
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H109", Cause.UNMATCHED_P2P, (2,))
    assert finding.message == (
        "rank 2 is in send of 8 float32 to rank 0 in world[0,1,2,3], a rank with which it exchanged nothing in any "
        "round before, at train.py:41; ranks 0, 1, 3 wait in their usual ones"
    )


def test_a_ring_of_usual_transfers_accuses_nobody():
    (finding,) = judged(*(around_a_ring(rank, (rank + 1) % 4) for rank in range(4)))
    assert (finding.cause, finding.culprit_ranks) == (Cause.CYCLE_P2P, ())


AVERAGED = """\
class Averager:
    def average(self):
        works = [dist.all_reduce(p, async_op=True) for p in self.parameters]
        for work in works:
            work.wait()

def states(generator):
    dist.all_gather_object(out, generator.state)

def consider(loss):
    if loss < best:
        states(generator)

def main():
    for step in range(100):
        averager.average()
        if rank == 0:
            consider(loss)

main()
"""


@pytest.mark.parametrize(
    ("left", "right", "lines"),
    [
        (("states", 8), ("<listcomp>", 3), (18, 16)),
        (("states", 8), ("consider", 12), None),
        (("main", 16), ("main", 18), (16, 18)),
    ],
    ids=["by their callers", "one calls the other", "one function"],
)
def test_the_lines_from_which_two_places_are_reached_are_found_in_the_text(tmp_path, left, right, lines):
    path = tmp_path / "averaged.py"
    path.write_text(AVERAGED)
    ours, theirs = (Frame(function=name, file=str(path), line=line) for name, line in (left, right))
    found = callers_in_common((ours,), (theirs,), source_lines([]))
    assert (None if found is None else tuple(frame.line for frame in found)) == lines


TWO_TEXTS = """\
def train(rank):
    for step in range(100):
        dist.all_reduce(grads)
        if rank == 0:
            tell()
        if step % 2:
            dist.broadcast(x)
        else:
            dist.all_gather(x)


def tell():
    dist.all_reduce(norm)
"""


def in_call(rank: int, path: Path, rows: list[tuple[str, int, str, str, int]]) -> RankSnapshot:
    """One of two ranks whose calls are (op, line, function, dtype, size); it sits in the last one."""
    entries = []
    for seq, (op, line, function, dtype, size) in enumerate(rows, 1):
        row = {**entry(seq, line=line, op=op, dtype=dtype, done=seq < len(rows)), "input_sizes": [[size]]}
        entries.append({**row, "frames": [{"name": function, "filename": str(path), "line": line}]})
    facts = ring(num_done=0, is_inside=False, world=2)
    status = {"0": {"last_enqueued_collective": len(rows), "last_completed_collective": len(rows) - 1}}
    facts = replace(facts, flight={**facts.flight, "entries": entries, "pg_status": status}, blocked_record=len(rows))
    return rank_snapshot(rank, None, facts)


def test_an_old_look_does_not_hide_why_the_processes_of_a_job_that_is_over_have_ended(program, tmp_path):
    """A snapshot is taken while ranks start slowly; their first steps and the abort then take less than a second."""
    seen, exits = aborted(program, line=5, other=4)
    rings = {rank: each.ring for rank, each in seen.ranks.items() if each.ring is not None}
    starting = {
        rank: replace(seen.ranks[rank], ring=replace(ring, num_calls=ring.num_calls - 1))
        for rank, ring in rings.items()
    }
    watcher = Watcher(tmp_path, line_of=source_lines([]), take=lambda _: seen, read=lambda *_: {})
    watcher._last = replace(seen, taken_s=seen.taken_s - 9.0, ranks=starting)
    found = watcher.end({seen.ranks[rank].process.pid: code for rank, code in exits.items()}).findings
    assert [(f.code, f.culprit_ranks, f.severity) for f in found] == [("H152", (1,), Severity.ERROR)]


SKIPPED = """\
def main():
    for x in batches:
        loss = model(x)
        loss.backward()
        if loss > 1.0:
            dist.all_reduce(loss)
"""
DDP = "/env/lib/python3.11/site-packages/torch/nn/parallel/distributed.py"


def without_lines(rank: int, path: Path, op: str, line: int, *inner: tuple[str, str, int]) -> RankSnapshot:
    """A rank in a call of which the copy of torch's recorder, which was taken without stacks, tells no line."""
    rows = [{**entry(1, line=3), "frames": []}, {**entry(2, op=op, done=False), "frames": []}]
    status = {"0": {"last_enqueued_collective": 2, "last_completed_collective": 1}}
    facts = ring(num_done=0, is_inside=False, world=2)
    facts = replace(facts, flight={**facts.flight, "entries": rows, "pg_status": status})
    return rank_snapshot(rank, stack_in(1000 + rank, str(path), line, *inner), facts)


def stack_in(pid: int, path: str, line: int, *inner: tuple[str, str, int]) -> ThreadStack:
    found = stack(pid, line, *inner)
    frames = tuple(replace(frame, file=path) if frame.file == PROGRAM else frame for frame in found.frames)
    return replace(found, frames=frames)


def in_two_calls(path: Path) -> tuple[RankSnapshot, RankSnapshot]:
    """Rank 1 in an all-reduce under a condition at line 6, rank 0 in DDP's broadcast at line 3."""
    one = without_lines(1, path, "all_reduce", 6, *ALL_REDUCE)
    return without_lines(0, path, "broadcast", 3, ("_pre_forward", DDP, 1775), ("forward", DDP, 1886)), one


@pytest.mark.parametrize("has_ring_line", [False, True], ids=["by its stack", "by the ring's own record"])
def test_a_call_whose_copy_has_no_line_yet_is_judged_by_the_line_where_its_rank_waits(tmp_path, has_ring_line):
    path = tmp_path / "train.py"
    path.write_text(SKIPPED)
    zero, one = in_two_calls(path)
    if has_ring_line:
        assert one.ring is not None
        call = OpenCall(
            text="all_reduce of 8 float32", function="main", file=str(path), line=6, is_new=True, group="world"
        )
        one = replace(one, stacks=(), ring=replace(one.ring, open_call=call, blocked_record=2))
    (finding,) = judge_snapshots(*twice(zero, one), line_of=source_lines([]))
    assert (finding.code, finding.culprit_ranks, finding.site) == ("M103", (1,), "train.py:6")
    assert any("if loss > 1.0" in line for line in finding.evidence)


def test_without_any_line_nobody_is_named(tmp_path):
    zero, one = in_two_calls(tmp_path / "train.py")
    found = judge_snapshots(*twice(replace(zero, stacks=()), replace(one, stacks=())), line_of=source_lines([]))
    assert [(f.code, f.culprit_ranks, f.site) for f in found] == [("M101", (), None)]


GRADS = ("all_reduce", 3, "train", "float32", 8)


@pytest.mark.parametrize(
    ("usual", "last", "cause"),
    [
        ([GRADS] * 6, ("all_reduce", 13, "tell", "float32", 1), Cause.EXTRA_COLLECTIVE),
        ([GRADS] * 6, ("all_reduce", 3, "train", "int32", 8), Cause.DTYPE),
        ([GRADS] * 6, ("all_reduce", 3, "train", "float32", 9), None),
    ],
    ids=["one too many", "another type", "another size at the same line tells nobody apart"],
)
def test_of_two_ranks_the_one_that_left_its_own_rounds_is_named(tmp_path, usual, last, cause):
    path = tmp_path / "two.py"
    path.write_text(TWO_TEXTS)
    ranks = (in_call(0, path, [*usual, last]), in_call(1, path, [*usual, GRADS]))
    (finding,) = judge_snapshots(*twice(*ranks), line_of=source_lines([]))
    if cause is None:
        assert (finding.code, finding.culprit_ranks) == ("M102", ())
    else:
        assert (finding.culprit_ranks, finding.cause, finding.severity) == ((0,), cause, Severity.ERROR)


def test_a_new_call_against_one_below_python_is_one_too_many(tmp_path):
    """DDP's reducer has no line: it stands in no branch of the program."""
    path = tmp_path / "two.py"
    path.write_text(TWO_TEXTS)
    below = ("all_reduce", 0, "", "float32", 8)
    ranks = (
        in_call(0, path, [*[below] * 6, ("broadcast", 13, "tell", "float32", 1)]),
        *(in_call(r, path, [below] * 7) for r in (1, 2)),
    )
    for each in ranks:
        for row in each.ring.flight["entries"]:
            row["frames"] = [frame for frame in row["frames"] if frame["line"]]
        each.ring.flight["pg_config"]["world"]["ranks"] = [0, 1, 2]
    (finding,) = judge_snapshots(*twice(*ranks), line_of=source_lines([]))
    assert (finding.culprit_ranks, finding.cause, finding.site) == ((0,), Cause.EXTRA_COLLECTIVE, "two.py:13")
    assert finding.message.endswith("at two.py:13, before the next one, all_reduce of 8 float32")


CALLBACK = """\
class Note(Callback):
    def on_log(self):
        dist.all_gather(parts, value)

def loop():
    dist.all_reduce(loss)
"""


def test_a_call_that_nobody_made_before_against_a_usual_one_of_another_function_is_one_too_many(tmp_path):
    """A trainer calls the callback: no function of the program holds both lines."""
    path = tmp_path / "note.py"
    path.write_text(CALLBACK)
    usual, new = ("all_reduce", 6, "loop", "float32", 8), ("all_gather", 3, "on_log", "int64", 1)
    ranks = (in_call(0, path, [*[usual] * 5, new]), *(in_call(r, path, [usual] * 6) for r in (1, 2)))
    for each in ranks:
        each.ring.flight["pg_config"]["world"]["ranks"] = [0, 1, 2]
    (finding,) = judge_snapshots(*twice(*ranks), line_of=source_lines([]))
    assert (finding.culprit_ranks, finding.cause, finding.site) == ((0,), Cause.EXTRA_COLLECTIVE, "note.py:3")


LEAVES = """\
def main(loader, count):
    for step in {loop}:
        if skip(step):
            {way}
        dist.all_reduce(loss)
    dist.barrier()
"""


@pytest.mark.parametrize(
    ("loop", "way", "cause"),
    [
        ("loader", "break", Cause.UNEVEN_DATA),
        ("range(count)", "continue", Cause.UNEVEN_DATA),
        ("range(count)", "break", Cause.SKIPPED_COLLECTIVE),
        ("range(60)", "continue", Cause.SKIPPED_COLLECTIVE),
        ("tqdm(range(0, 60, 2))", "continue", Cause.SKIPPED_COLLECTIVE),
    ],
)
def test_a_loop_with_as_many_turns_on_every_rank_is_not_left_for_want_of_data(loop, way, cause):
    text = LEAVES.format(loop=loop, way=way)
    assert cause_of_leaving(place_in(text, 5), place_in(text, 6)) is cause


def test_the_other_branch_of_a_choice_is_a_different_call_and_none_left_out(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(TWO_TEXTS)
    cast, gather = ("broadcast", 7, "train", "float32", 8), ("all_gather", 9, "train", "float32", 8)
    usual = [cast, gather] * 3
    ranks = (in_call(0, path, [*usual, gather]), in_call(1, path, [*usual, cast]))
    (finding,) = judge_snapshots(*twice(*ranks), line_of=source_lines([]))
    assert (finding.cause, finding.culprit_ranks) == (Cause.DIFFERENT_OP, (0,))


EPOCHS = """\
def train(loader, net, optimizer):
    for epoch in range(9):
        for batch in loader:
            net(batch).backward()
            for parameter in net.parameters():
                dist.all_reduce(parameter.grad)
            dist.all_reduce(norm)
            optimizer.step()
        dist.all_reduce(seen)
"""


@pytest.mark.parametrize(
    ("inside", "now", "has_left"),
    [(4, 9, True), (6, 9, True), (6, 7, False), (7, 9, True), (9, 9, False), (9, 4, False)],
    ids=["an epoch", "an epoch, from a loop in it", "a loop in a step", "an epoch's step", "one line", "a next epoch"],
)
def test_the_loop_of_an_epoch_is_left_and_one_over_parameters_is_a_part_of_the_step(inside, now, has_left):
    assert (cause_of_leaving(place_in(EPOCHS, inside), place_in(EPOCHS, now)) is not None) is has_left


CHOICES = """def average(value):
    if isinstance(value, Tensor):
        dist.all_reduce(value)
        return value
    parts = [None] * 4
    dist.all_gather_object(parts, value)
    return parts

def loop(batches):
    for batch in batches:
        if batch.is_empty:
            dist.barrier()
            continue
        elif batch.is_last:
            dist.broadcast(batch)
        else:
            raise ValueError
        dist.all_reduce(batch)
        if rank == 0:
            dist.reduce(batch)
        dist.all_gather(batch)
"""


@pytest.mark.parametrize(
    ("left", "right", "is_choice"),
    [(3, 6, True), (6, 3, True), (12, 15, True), (12, 18, True), (15, 18, False), (18, 20, False), (20, 21, False)],
    ids=["after a return", "and back", "elif", "after a continue", "a branch that goes on", "behind it", "no else"],
)
def test_what_stands_behind_a_branch_that_leaves_is_the_other_branch(left, right, is_choice):
    assert are_branches(place_in(CHOICES, left), place_in(CHOICES, right)) is is_choice


def test_an_abort_while_two_threads_make_calls_of_one_group_accuses_nobody(program):
    facts = ring(num_done=0, is_inside=False, world=2)
    beside = OpenCall(text="all_reduce of 1 int64", function="run", file=str(program), line=10, is_new=False)
    both = replace(
        facts, beside=beside, backward=(str(program), 4), crashed=(Frame(function="main", file=str(program), line=4),)
    )
    seen = snapshot(*(rank_snapshot(rank, None, both, state=GONE) for rank in range(2)))
    (finding,) = judge_snapshots(seen, seen, line_of=source_lines([]), exits={0: -15, 1: -signal.SIGABRT})
    assert (finding.code, finding.cause, finding.culprit_ranks) == ("H152", Cause.DIFFERENT_OP, ())
    assert (finding.site, finding.waiting_ranks) == ("uneven.py:10", (0, 1))


def test_an_event_loop_that_watches_itself_alone_waits_for_ever():
    loop = (("select", "/py/lib/python3.11/selectors.py", 468), ("_run_once", "/py/lib/python3.11/asyncio/b.py", 1884))
    idle = rank_snapshot(2, stack(1002, 71, *loop), ring(num_done=6, is_inside=False), waiting_in=WaitingIn.EVENT)
    (finding,) = judged(waiting(0), waiting(1), waiting(3), idle)
    assert (finding.culprit_ranks, finding.cause, finding.severity) == ((2,), Cause.LOCK, Severity.ERROR)
    reader = rank_snapshot(2, stack(1002, 71, *loop), ring(num_done=6, is_inside=False), waiting_in=WaitingIn.POLL)
    (finding,) = judged(waiting(0), waiting(1), waiting(3), reader)
    assert (finding.culprit_ranks, finding.severity) == ((2,), Severity.NOTICE)
