"""What the program's text adds to a finding: the line, the conditions around it, and the odd one of two sides."""

from pathlib import Path

import pytest

from emberward.diagnose import tie_break_by_text, with_source
from emberward.diagnose._program import place_in
from emberward.diagnose._source import conditions_around
from emberward.events import Collective, CollectiveOp, Group, Lane, LaneKind, Observer, Site, TraceBuilder
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.match import check
from emberward.sources.dumps import source_lines

TEXT = """\
def validate(model):
    total = model(1)
    dist.all_reduce(total)


def train(model, data, rank):
    for step, x in enumerate(data):
        model(x).backward()
        if rank == 0 and step % 2 == 1:
            validate(model)
        elif step > 7:
            dist.barrier()
        else:
            log(x)
    match rank:
        case 0:
            save(model)
    try:
        dist.barrier()
    except RuntimeError:
        dist.broadcast(x, 0)


if __name__ == "__main__":
    train(net, loader, 0)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        (10, ((9, "if rank == 0 and step % 2 == 1"),)),
        (12, ((11, "elif step > 7"),)),
        (14, ((11, "else of: elif step > 7"),)),
        (8, ()),
        (17, ((16, "case 0"),)),
        (19, ()),
        (21, ((20, "except RuntimeError"),)),
        (25, ()),
        (99, ()),
    ],
)
def test_the_conditions_around_a_line(line, rows):
    assert conditions_around(place_in(TEXT, line)) == rows


def test_a_text_that_is_no_program_has_no_conditions():
    assert place_in("if x:\n  (", 2) is None


def finding(site: str | None) -> Finding:
    return Finding(
        code="M101",
        severity=Severity.ERROR,
        kind=Kind.MISMATCH,
        cause=Cause.DIFFERENT_OP,
        certainty=Certainty.OBSERVED,
        message="m",
        site=site,
        evidence=("rank 0 at one line",),
    )


def test_a_finding_shows_its_line_and_the_condition_around_the_call_of_its_function(program):
    line_of = source_lines([program.parent])
    shown = with_source(finding("train.py:3"), line_of)
    assert shown.evidence == (
        "rank 0 at one line",
        "train.py:3 reads: dist.all_reduce(total)",
        "train.py:9 holds there: if rank == 0 and step % 2 == 1",
    )
    assert with_source(shown, line_of) == shown, "once"


@pytest.mark.parametrize("site", [None, "train.py", "elsewhere.py:3", "train.py:99", "train.py:4"])
def test_without_a_text_of_the_line_the_finding_stays_as_it_is(program, site):
    assert with_source(finding(site), source_lines([program.parent])) == finding(site)


def test_a_file_that_was_broken_since_still_gives_the_line_alone(program):
    program.write_text("def f(:\n    dist.barrier()\n")
    shown = with_source(finding("train.py:2"), source_lines([program.parent]))
    assert shown.evidence[1:] == ("train.py:2 reads: dist.barrier()",)


def site(path: Path, line: int) -> Site:
    return Site(file=str(path), line=line)


@pytest.mark.parametrize(
    ("left", "right", "told"),
    [
        (3, 8, (True, Cause.EXTRA_COLLECTIVE)),
        (8, 3, (False, Cause.EXTRA_COLLECTIVE)),
        (19, 8, (True, Cause.UNEVEN_DATA)),
        (8, 19, (False, Cause.UNEVEN_DATA)),
        (3, None, (True, Cause.EXTRA_COLLECTIVE)),
        # Who stands in an ``else`` does what the condition's exception left out.
        (14, 8, (False, Cause.SKIPPED_COLLECTIVE)),
        # The branches of one choice: neither is the odd one.
        (3, 12, None),
        (8, 8, None),
        (8, None, None),
    ],
)
def test_of_two_lines_the_text_tells_the_odd_one(program, left, right, told):
    odd = tie_break_by_text(source_lines([]))(site(program, left), None if right is None else site(program, right))
    assert (None if odd is None else (odd.is_first, odd.cause)) == told


def test_without_a_text_nobody_is_the_odd_one(tmp_path):
    tie_break = tie_break_by_text(source_lines([]))
    assert tie_break(site(tmp_path / "gone.py", 3), site(tmp_path / "gone.py", 8)) is None


PAIR = Group(ranks=(0, 1), label="world")


def judged(calls: dict[int, list[tuple[int, CollectiveOp]]], program: Path) -> Finding:
    """The finding on two ranks' calls, each a line and an operation, when the text may tell the odd one."""
    builder = TraceBuilder(2, Observer.DRY_RUN)
    for rank, made in calls.items():
        for line, op in made:
            body = Collective(op=op, group=PAIR, dtype="float32", numel=8)
            builder.add(rank, Lane(kind=LaneKind.HOST), body, site=site(program, line))
    (found,) = check(builder.build(), tie_break=tie_break_by_text(source_lines([]))).findings
    return found


SUM, ALL = CollectiveOp.ALL_REDUCE, CollectiveOp.ALL_GATHER


def test_of_two_ranks_the_guarded_call_that_nobody_made_before_is_one_too_many(program):
    found = judged({0: [(8, SUM), (3, ALL), (8, SUM)], 1: [(8, SUM), (8, SUM)]}, program)
    assert (found.code, found.culprit_ranks, found.cause) == ("M103", (0,), Cause.EXTRA_COLLECTIVE)
    assert found.site == f"{program}:3"
    assert found.evidence[-1] == (
        "train.py:3 is run only under: if rank == 0 and step % 2 == 1 (train.py:9); the other side's call is not"
    )


def test_of_two_ranks_the_one_without_the_guarded_call_of_each_round_left_it_out(program):
    whole = [(8, SUM), (3, ALL), (8, SUM), (3, ALL)]
    found = judged({0: whole, 1: [*whole[:3], (8, SUM)]}, program)
    assert (found.culprit_ranks, found.cause) == ((1,), Cause.SKIPPED_COLLECTIVE)


def test_of_two_ranks_the_one_behind_the_loop_had_fewer_turns(program):
    found = judged({0: [(8, SUM), (8, SUM)], 1: [(8, SUM), (19, ALL)]}, program)
    assert (found.culprit_ranks, found.cause, found.site) == ((1,), Cause.UNEVEN_DATA, f"{program}:19")


def test_a_tie_at_one_line_accuses_nobody_and_tells_the_line(program):
    found = judged({0: [(8, SUM)], 1: [(8, ALL)]}, program)
    assert (found.culprit_ranks, found.waiting_ranks, found.site) == ((), (0, 1), f"{program}:8")


def test_equal_calls_from_two_lines_are_no_fault(program):
    builder = TraceBuilder(2, Observer.DRY_RUN)
    for rank, line in ((0, 3), (1, 8)):
        body = Collective(op=SUM, group=PAIR, dtype="float32", numel=8)
        builder.add(rank, Lane(kind=LaneKind.HOST), body, site=site(program, line))
    assert check(builder.build(), tie_break=tie_break_by_text(source_lines([]))).findings == ()
