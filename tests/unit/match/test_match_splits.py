"""Parts of collectives, compared pair by pair: each fault with a look-alike that must pass."""

import pytest
from unit.match.scenes import ALL4, HOST

from emberward.events import Collective, CollectiveOp, Group, Observer, Recv, Send, Site, TraceBuilder
from emberward.findings import Cause, Severity
from emberward.match import check, explain

ALL3 = Group(ranks=(0, 1, 2), label="world")
A2A, GATHER, SCATTER = CollectiveOp.ALL_TO_ALL, CollectiveOp.GATHER, CollectiveOp.SCATTER
ALL_GATHER, REDUCE_SCATTER = CollectiveOp.ALL_GATHER, CollectiveOp.REDUCE_SCATTER


def verdict_of(op, calls, *, group=ALL3, observer=Observer.DRY_RUN, root=None):
    """The verdict on one call; `calls` gives for each rank (numel, out_numel, in_splits, out_splits)."""
    builder = TraceBuilder(len(calls), observer)
    for rank, (numel, out, gives, takes) in enumerate(calls):
        body = Collective(
            op=op,
            group=group,
            dtype="float32",
            numel=numel,
            out_numel=out,
            root=root,
            in_splits=gives,
            out_splits=takes,
        )
        builder.add(rank, HOST, body, site=Site(file="moe.py", line=10 + rank))
    return check(builder.build())


def exchange(rows):
    """The calls of an all-to-all in which rank i gives rows[i][j] to j and each expects what it is given."""
    columns = list(zip(*rows, strict=True))
    return [(sum(row), sum(column), row, column) for row, column in zip(rows, columns, strict=True)]


EVEN, UNEVEN = exchange([(1, 2, 3), (4, 5, 6), (7, 8, 9)]), exchange([(0, 0, 5), (0, 0, 0), (1, 0, 0)])
FITTING = {
    "all-to-all": (A2A, EVEN, None),
    "all-to-all with nothing for some": (A2A, UNEVEN, None),
    "scatter": (SCATTER, [(9, 3, (3, 3, 3), None), (0, 3, None, None), (0, 3, None, None)], 0),
    "gather": (GATHER, [(3, None, None, None)] * 3, 1),
    "uneven all-gather": (ALL_GATHER, [(n, 6, None, (1, 2, 3)) for n in (1, 2, 3)], None),
    "uneven reduce-scatter": (REDUCE_SCATTER, [(6, n, (1, 2, 3), None) for n in (1, 2, 3)], None),
}


@pytest.mark.parametrize("name", FITTING)
def test_parts_that_fit_are_proved(name):
    op, calls, root = FITTING[name]
    verdict = verdict_of(op, calls, root=root)
    assert verdict.is_proof, explain(verdict)
    assert verdict.findings == ()


def changed(calls, rank, **facts):
    names = ("numel", "out", "gives", "takes")
    return [
        tuple(facts.get(name, value) for name, value in zip(names, call, strict=True)) if r == rank else call
        for r, call in enumerate(calls)
    ]


WRONG = {
    "a giver cut its parts": (A2A, changed(EVEN, 1, gives=(4, 4, 4), numel=12), None, [1], "moe.py:11"),
    "a taker expects others": (A2A, changed(EVEN, 2, takes=(1, 1, 1), out=3), None, [2], "moe.py:12"),
    "two do not agree": (A2A, changed(EVEN, 0, gives=(1, 2, 4), numel=7), None, [], "moe.py:10"),
    "a scattered part is too small": (SCATTER, changed(FITTING["scatter"][1], 2, out=2), 0, [], "moe.py:10"),
    "an all-gather expects others": (
        ALL_GATHER, changed(FITTING["uneven all-gather"][1], 1, takes=(2, 2, 2)), None, [1], "moe.py:11",
    ),
    "a reduce-scatter takes others": (
        REDUCE_SCATTER, changed(FITTING["uneven reduce-scatter"][1], 2, out=2), None, [2], "moe.py:12",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_parts_that_do_not_fit_are_an_error_that_names_who_departs(name):
    op, calls, root, culprits, site = WRONG[name]
    verdict = verdict_of(op, calls, root=root)
    [found] = [finding for finding in verdict.findings if finding.severity is Severity.ERROR]
    assert (found.code, found.cause, list(found.culprit_ranks), found.site) == ("M102", Cause.SHAPE, culprits, site)
    assert not verdict.is_safe


@pytest.mark.parametrize("observer", [Observer.DRY_RUN, Observer.DUMP])
def test_parts_that_a_trace_does_not_tell_are_no_proof_and_no_error(observer):
    verdict = verdict_of(A2A, [(6, None, None, None)] * 3, observer=observer)
    assert verdict.findings == ()
    assert verdict.not_compared == ("the sizes of the parts of all_to_all world[0,1,2] at moe.py:10 (1 call)",)
    assert not verdict.is_proof


@pytest.mark.parametrize(("parts", "codes"), [((2, 4), ["M102"]), ((4, 2), [])])
def test_tensors_of_one_call_are_compared_one_by_one(parts, codes):
    builder = TraceBuilder(4, Observer.DRY_RUN)
    for rank in range(4):
        own = parts if rank == 3 else (4, 2)
        builder.add(rank, HOST, Collective(op=CollectiveOp.ALL_REDUCE, group=ALL4, dtype="x", numel=6, parts=own))
    verdict = check(builder.build())
    assert [finding.code for finding in verdict.findings] == codes
    if codes:
        assert (
            verdict.findings[0].message == "rank 3 calls all_reduce of tensors of 2, 4 where others have 4, 2 elements"
        )


@pytest.mark.parametrize(
    ("left", "right", "severity"),
    [
        ((2, 3), (3, 2), Severity.NOTICE),
        ((2, 3), (6,), None),
        ((2, 3), (2, 3), None),
        ((2, 3), (2, 4), Severity.ERROR),
    ],
)
def test_both_ends_of_a_transfer_are_compared(left, right, severity):
    builder = TraceBuilder(2, Observer.DRY_RUN)
    sizes = [shape[0] * (shape[1] if len(shape) > 1 else 1) for shape in (left, right)]
    builder.add(0, HOST, Send(peer=1, batch=0, dtype="float32", numel=sizes[0], shape=left))
    builder.add(1, HOST, Recv(peer=0, batch=0, dtype="float32", numel=sizes[1], shape=right))
    verdict = check(builder.build())
    assert [finding.severity for finding in verdict.findings] == ([] if severity is None else [severity])
    assert verdict.is_proof is (severity is not Severity.ERROR)
