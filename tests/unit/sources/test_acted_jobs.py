"""Each way of leaving the order of calls is told by what happened: which rank, why, and where it decided so."""

from pathlib import Path

import pytest
from unit.sources.acted_jobs import HEAD, ActedJob

from emberward.findings import Severity

FAULTS = {path.stem: path for path in sorted((Path(__file__).parents[2] / "data" / "acted").glob("*.txt"))}
"""Programs, each with its number of ranks, culprit and cause in its first line; the line to tell ends ``# HERE``."""
LOOK_ALIKES = {
    "leaders meet first, one of them late": (
        4,
        """\
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
leaders = dist.new_group([0, 2])
for step in range(9):
    groups = (pairs[rank // 2],) if step < 6 or rank % 2 else (leaders, pairs[rank // 2])
    for group in groups:
        if rank == 2 and step == 6:
            time.sleep(20)
        dist.all_reduce(8, group=group)
""",
    ),
    "receives of later tags are open already": (
        2,
        """\
for turn in range(0, 20, 2):
    if rank == 0:
        works = [dist.irecv(4, src=1, tag=turn + n) for n in (1, 0)]
        for work in works:
            work.wait()
    else:
        dist.isend(4, dst=0, tag=turn).wait()
        if turn == 12:
            time.sleep(20)
        dist.isend(4, dst=0, tag=turn + 1).wait()
""",
    ),
    "a guarded step comes late": (
        3,
        """\
def one(step):
    if rank == 1 and step == 14:
        time.sleep(20)
    dist.all_reduce(8)
for step in range(20):
    with contextlib.suppress(ValueError):
        one(step)
    if step % 5 == 4:
        dist.all_gather(2)
""",
    ),
    "a call of every fifth turn, for which one rank is late": (
        3,
        """\
for step in range(20):
    dist.all_reduce(8)
    if step % 5 == 4:
        if rank == 2 and step == 14:
            time.sleep(20)
        dist.all_gather(2)
""",
    ),
}

ENDED = {
    "one rank has fewer micro-batches, and makes its step's calls all the same": """\
for step in range(9):
    for micro in range(4 - (rank == 1)):
        loss = micro
    dist.all_reduce(8)
    torch.optimizer.step()
""",
    "a rank out of data answers the calls of its peers": """\
for step in range(9):
    if rank != 1 or step < 6:
        loss = step
    dist.all_reduce(8)
    torch.optimizer.step()
""",
    "each rank makes steps of its own between averages": """\
for turn in range(9):
    for step in range(4 - (rank == 1 and turn == 5)):
        torch.optimizer.step()
    dist.all_reduce(8)
""",
    "a rank drops a batch that it cannot read before any call": """\
done = step = 0
while done < 9:
    step += 1
    try:
        if rank == 1 and step == 4:
            raise ValueError
    except ValueError:
        continue
    dist.all_reduce(8)
    torch.optimizer.step()
    done += 1
""",
    "an error of all ranks alike is skipped by all": """\
for step in range(9):
    try:
        if step == 4:
            raise ValueError
        dist.all_reduce(8)
    except ValueError:
        continue
    torch.optimizer.step()
""",
}
"""Jobs whose ranks all come to their end, and do not all do the same."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_departure_from_the_order_is_told_by_what_happened(name):
    text = FAULTS[name].read_text()
    truth = dict(word.split("=") for word in text.partition("\n")[0].removeprefix("#: ").split())
    job = ActedJob(HEAD + text, int(truth["ranks"]), breaks="ends" in truth)
    assert job.has_ended or "ends" not in truth
    severity = Severity.WARNING if job.has_ended else Severity.ERROR
    finding = next(each for each in job.findings() if each.severity is severity)
    marked = [n for n, line in enumerate(job.lines, 1) if line.endswith("# HERE")]
    assert (finding.culprit_ranks, finding.cause.value, finding.site) == (
        () if truth["culprit"] == "nobody" else (int(truth["culprit"]),),
        truth["cause"],
        f"train.py:{marked[0]}" if marked else None,
    )


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_who_is_late_leaves_no_order(name):
    world, text = LOOK_ALIKES[name]
    job = ActedJob(HEAD + text, world)
    assert not job.has_ended
    assert [each.message for each in job.findings() if each.severity is Severity.ERROR] == []


@pytest.mark.parametrize("name", ENDED)
def test_of_a_job_that_ended_nothing_is_said_while_its_calls_pair(name):
    job = ActedJob(HEAD + ENDED[name], 3, breaks=True)
    assert job.has_ended
    assert [each.message for each in job.findings()] == []


def test_ranks_that_keep_the_order_end():
    text = "for step in range(9):\n    dist.all_reduce(8)\n    if step % 2:\n        torch.loss().backward()\n"
    assert ActedJob(HEAD + text, 3).has_ended
