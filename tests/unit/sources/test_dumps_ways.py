"""How a rank left the order of calls, by whole stacks in the dumps alone: no text of the program is at hand."""

from pathlib import Path
from typing import Any

import pytest
from unit.sources.dump_samples import dump, entry, write
from unit.sources.test_dumps_rules import TP, WORLD, verdict

from emberward.findings import Cause, Severity
from emberward.sources.dumps import explain_paths

Way = tuple[str, ...]
BATCH: Way = ("train:20",)
BACKWARD: Way = ("one_epoch:31", "train:22")
REDUCE: Way = ("helper:8", "train:24")


def call(number: int, way: Way, op: str, size: int, *, done: bool = True) -> dict[str, Any]:
    made = entry(number, number, op=op, size=size, done=done)
    frames = [(name, int(line)) for name, line in (part.split(":") for part in way)]
    own = [{"name": name, "filename": "/job/train.py", "line": line} for name, line in frames]
    return {**made, "frames": [made["frames"][0], *own]}


ROUND = ((BATCH, "broadcast", 64), (BACKWARD, "all_reduce", 8), (REDUCE, "all_reduce", 2))
USUAL = ROUND * 4


@pytest.mark.parametrize(
    ("odd", "cause"),
    [
        # Behind all of the turn, a call that nobody else makes, also through a function that all use elsewhere.
        ([*USUAL, (("log:50", "train:26"), "all_reduce", 4)], Cause.EXTRA_COLLECTIVE),
        ([*USUAL, (("helper:8", "train:26"), "all_reduce", 2)], Cause.EXTRA_COLLECTIVE),
        # The innermost function in a further turn: the call once more.
        ([*USUAL, (REDUCE, "all_reduce", 2)], Cause.EXTRA_COLLECTIVE),
        # Below the line of the call that the others are in.
        ([*USUAL, (BACKWARD, "all_reduce", 8)], Cause.SKIPPED_COLLECTIVE),
        # Of the size and type of the call that the others make: one tensor, exchanged in another way.
        ([*USUAL, (("train:26",), "all_gather", 64)], Cause.DIFFERENT_OP),
    ],
)
def test_stacks_in_the_dumps_tell_left_out_from_one_more(
    tmp_path: Path, odd: list[tuple[Way, str, int]], cause: Cause
) -> None:
    """The others have gone on to the next turn's first call, as in a loop over steps."""
    peers = [*USUAL, ROUND[0]]
    dumps = {}
    for rank in range(4):
        rows = [call(n, *row, done=n < len(peers)) for n, row in enumerate(odd if rank == 1 else peers, start=1)]
        dumps[rank] = dump(rows, WORLD, status={0: (13, 12)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.cause) == ((1,), cause)


def test_a_function_left_while_the_others_are_in_its_next_turn_is_a_call_left_out(tmp_path: Path) -> None:
    peers = [(BACKWARD, "all_reduce", 8)] * 6
    dumps = {}
    for rank in range(4):
        made = [*peers[:5], (("train:25",), "all_gather", 1)] if rank == 2 else peers
        rows = [call(n, *row, done=n < 6) for n, row in enumerate(made, start=1)]
        dumps[rank] = dump(rows, WORLD, status={0: (6, 5)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.cause) == ((2,), Cause.SKIPPED_COLLECTIVE)


@pytest.mark.parametrize("folders", [("a", "b"), ("b", "a")])
def test_whose_dump_is_read_first_does_not_matter(tmp_path: Path, folders: tuple[str, str]) -> None:
    """Each order of the folders: what is like the first dump that was read is not compared with it again."""
    dumps = {}
    for rank in range(4):
        rows = [call(n, *row, done=n < 13) for n, row in enumerate([*USUAL, ROUND[rank == 3]], start=1)]
        dumps[rank] = dump(rows, WORLD, status={0: (13, 12)})
    write(tmp_path / folders[0], {3: dumps.pop(3)})
    write(tmp_path / folders[1], dumps)
    finding = verdict(tmp_path)
    assert (finding.code, finding.culprit_ranks) == ("M101", (3,))


def transfers_before(counts: list[int], *, open_last: bool) -> dict[str, Any]:
    """A dump of gloo's: collectives with so many sends and receives before each, which are counted and not recorded."""
    number, rows = 0, []
    for seq, count in enumerate(counts, start=1):
        number += count + 1
        done = seq < len(counts) or not open_last
        made = entry(seq, seq, op="broadcast", done=done, line=63, backend="gloo")
        rows.append({**made, "op_id": number})
    return {
        **dump(rows, WORLD, status={0: (number, number - 1 if open_last else number)}),
        "comm_lib_version": "",
    }


@pytest.mark.parametrize(("last", "accused"), [(1, (2,)), (2, ())])
def test_transfers_that_gloo_counts_and_does_not_record_tell_who_left_one_out(
    tmp_path: Path, last: int, accused: tuple[int, ...]
) -> None:
    """Rank 0 receives a report of each, rank 3 hands its own in; 1 and 2 have passed on, 2 without one or with."""
    past = [1, 2, 1, 2, 1]
    dumps = {
        0: transfers_before([3, 6, 3, 6, 3], open_last=False),
        1: transfers_before([*past, 2], open_last=True),
        2: transfers_before([*past, last], open_last=True),
        3: transfers_before(past, open_last=False),
    }
    folder = write(tmp_path / "d", dumps)
    for rank, call_of in enumerate(("recv", "broadcast", "broadcast", "send")):
        line = {"recv": 27, "send": 49}.get(call_of, 63)
        text = f"Process {10 + rank}: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        text += f'Thread {10 + rank} (idle): "MainThread"\n    {call_of} (torch/distributed/distributed_c10d.py:2799)\n'
        (folder / f"stack_rank_{rank}.txt").write_text(f"{text}    train (train.py:{line})\n")
    found = [each for each in explain_paths([folder]).findings if each.severity is Severity.ERROR]
    assert [(each.code, each.cause, each.culprit_ranks) for each in found] == [("H109", Cause.UNMATCHED_P2P, accused)]
    assert found[0].site == "train.py:27"


def test_calls_that_met_in_silence_on_another_way_are_where_it_began(tmp_path: Path) -> None:
    """An evaluation on one rank gathers parameters: they meet the gathers of the next step, of one size each."""
    gather = (("train:24",), "all_gather", 27)
    peers = [*[(("train:28",), "all_reduce", 1), gather, gather] * 3, (("train:28",), "all_reduce", 1), gather, gather]
    alone = (("validate:11", "train:30"), "all_gather", 27)
    odd = [*peers[:-2], alone, alone, gather]
    peers += [(("train:24",), "all_reduce", 81)]
    dumps = {}
    for rank in range(3):
        rows = [call(n, *row, done=n < 13) for n, row in enumerate(odd if rank == 0 else peers, start=1)]
        dumps[rank] = dump(rows, {("0", "default_pg"): [0, 1, 2]}, status={0: (13, 12)})
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.cause, finding.site) == ((0,), Cause.EXTRA_COLLECTIVE, "train.py:11")


def test_a_call_in_another_group_that_met_in_silence_is_named(tmp_path: Path) -> None:
    """Rank 3 once makes the call of its second group in the first one, where rank 2 is in the next turn by then."""
    groups = {("1", "rows"): [2, 3], ("2", "cols"): [1, 3], ("3", "ring"): [1, 2]}
    rows, cols, ring = (1, "1", "rows"), (2, "2", "cols"), (3, "3", "ring")

    def made(*calls: tuple[tuple[int, str, str], int, int]) -> list[dict[str, Any]]:
        found = [entry(n, seq, pg=pg, line=line) for n, (pg, seq, line) in enumerate(calls, start=1)]
        return [*found[:-1], {**found[-1], "retired": False, "state": "scheduled"}]

    def turns(*lines: tuple[tuple[int, str, str], int], num: int = 5) -> list[tuple[tuple[int, str, str], int, int]]:
        return [(pg, seq, line) for seq in range(1, num + 1) for pg, line in lines]

    dumps = {
        1: dump(made(*turns((cols, 20), (ring, 23)), (cols, 6, 20)), groups),
        2: dump(made(*turns((rows, 17), (ring, 23)), (rows, 6, 17), (rows, 7, 20), (ring, 6, 23)), groups),
        3: dump(made(*turns((rows, 17), (cols, 20)), (rows, 6, 17), (rows, 7, 20), (rows, 8, 17)), groups),
    }
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.culprit_ranks, finding.cause, finding.site) == ((3,), Cause.DIFFERENT_GROUP, "train.py:20")


def test_a_size_that_is_new_on_the_way_of_all_is_a_shape_and_no_loop_that_was_left(tmp_path: Path) -> None:
    """Pieces of tensors that are not as large everywhere: the last one is smaller, and on some there is one more."""
    pieces = [(BATCH, "broadcast", 64)] * 4
    dumps = {}
    for rank in range(4):
        last = (BATCH, "broadcast", 64) if rank > 1 else (REDUCE, "all_reduce", 2)
        made = [*pieces, (BATCH, "broadcast", 64 if rank > 1 else 20), last]
        dumps[rank] = dump([call(n, *row, done=n < 6) for n, row in enumerate(made, start=1)], WORLD)
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.cause, finding.site) == ("M102", Cause.SHAPE, "train.py:20")


@pytest.mark.parametrize("is_alone", [True, False])
def test_the_one_that_comes_in_another_order_of_groups_turned_it_round(tmp_path: Path, *, is_alone: bool) -> None:
    """At lines of its own, as in a branch. Of two against two neither is the odd side."""
    groups = {**WORLD, TP[1:]: [0, 1, 2, 3]}
    dumps = {}
    for rank in range(4):
        rows = [entry(2 * k - 1, k, line=5) for k in range(1, 6)]
        rows += [entry(2 * k, k, pg=TP, line=6) for k in range(1, 6)]
        is_odd = rank == 2 or (rank == 3 and not is_alone)
        last = entry(11, 6, pg=TP, line=8, done=False) if is_odd else entry(11, 6, line=5, done=False)
        dumps[rank] = dump([*sorted(rows, key=lambda row: row["record_id"]), last], groups)
    finding = verdict(write(tmp_path / "d", dumps))
    assert (finding.code, finding.culprit_ranks) == ("M104", (2,) if is_alone else ())
    assert finding.site == ("train.py:8" if is_alone else None)


SAVES = """def train(model, rank):
    for step in range(90):
        all_reduce(model)
        if step % 10 == 0:
            if rank == 0:
                WORK(model)
            barrier()
"""


@pytest.mark.parametrize(("work", "severity"), [("save", Severity.WARNING), ("print", Severity.ERROR)])
def test_who_alone_has_work_on_the_way_to_a_call_may_be_at_it(tmp_path: Path, work: str, severity: Severity) -> None:
    dumps = {}
    for rank in range(4):
        rows = [call(n, ("train:3",), "all_reduce", 8) for n in range(1, 5)]
        rows += [call(5, ("train:7",), "barrier", 1, done=False)] if rank else []
        dumps[rank] = dump(rows, WORLD)
    write(tmp_path / "d", dumps)
    (tmp_path / "d" / "train.py").write_text(SAVES.replace("WORK", work))
    finding = verdict(tmp_path / "d")
    assert (finding.code, finding.culprit_ranks, finding.severity) == ("H101", (0,), severity)
