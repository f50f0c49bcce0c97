"""What a rank's ring tells the judge is the same in a job that runs, in its folder afterwards, and in a bundle."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from unit.sources.acted_jobs import FILE, HEAD, ActedJob
from unit.sources.live_snapshots import entry, rank_snapshot, ring, stack, twice, waiting

from emberward.diagnose import Departed, Frame, class_of
from emberward.diagnose.live import RingFacts, to_plain
from emberward.events import HostState
from emberward.findings import Cause, Certainty, Finding, FindingPhase, Severity
from emberward.sources.dumps import bundled, explain_paths, ring_facts
from emberward.sources.dumps._ring_facts import RankRing
from emberward.sources.live import judge_snapshots
from emberward.sources.ring import MarkKind, RingWriter, identity_here, read_ring, ring_name

ACTED = {path.stem: path for path in sorted((Path(__file__).parents[2] / "data" / "acted").glob("*.txt"))}
LEFT = Departed(
    cause=Cause.EXTRA_COLLECTIVE,
    expected="recv pp_down float32 8 from place 0 at emberward/engine/_executor.py:220",
    found="all_reduce world float32 3 sum",
    site="hook.py:12",
    step=2,
    micro_batch=1,
    stage="F",
)


def explained(folder: Path, rings: dict[int, RingFacts]) -> Finding:
    """What a folder says that holds these rings and nothing else."""
    for rank, facts in rings.items():
        ring_file = RankRing(rank=rank, pid=None, facts=facts)
        (folder / f"rank{rank:05d}.json").write_text(json.dumps(bundled(ring_file)))
    return explain_paths([folder]).explanations[0].verdict


@pytest.mark.parametrize("name", ACTED)
def test_the_folder_of_a_job_names_whom_the_job_named_while_it_stood_or_nobody(name, tmp_path):
    text = ACTED[name].read_text()
    truth = dict(word.split("=") for word in text.partition("\n")[0].removeprefix("#: ").split())
    job = ActedJob(HEAD + text, int(truth["ranks"]))
    (tmp_path / Path(FILE).name).write_text(job.text)
    said = explained(tmp_path, {each.rank: job._snapshot(each).ring for each in job._ranks})
    culprit = () if truth["culprit"] == "nobody" else (int(truth["culprit"]),)
    assert said.culprit_ranks in (culprit, ()), said.message
    if name in ("backward_in_two_halves", "send_left_out"):
        marked = [n for n, line in enumerate(job.lines, 1) if line.endswith("# HERE")]
        told = (said.culprit_ranks, said.cause.value, said.site)
        assert told == (culprit, truth["cause"], f"train.py:{marked[0]}"), "by what its recorder alone tells"


def open_transfer(facts: RingFacts, name: str, *, is_inside: bool) -> RingFacts:
    """The ring with a transfer that has not ended, in which its rank waits or not."""
    number = len(facts.flight["entries"]) + 1
    row = {**entry(number, done=False), "profiling_name": f"live:{name}", "is_p2p": True, "tag": 0}
    flight = {**facts.flight, "entries": [*facts.flight["entries"], row]}
    return replace(facts, flight=flight, blocked_record=number if is_inside else facts.blocked_record)


@pytest.mark.parametrize(("transfer", "together"), [("send 0->1", "M104"), ("recv 0<-1", "H103")])
@pytest.mark.parametrize("is_inside", [False, True])
def test_who_left_a_send_open_and_is_in_its_own_code_waits_in_no_transfer(transfer, together, is_inside, tmp_path):
    pair = [ring(num_done=6, is_inside=False, world=2) for _ in range(2)]
    rings = {
        0: open_transfer(pair[0], transfer, is_inside=True),
        1: open_transfer(pair[1], "send 1->0", is_inside=is_inside),
    }
    said = explained(tmp_path, rings)
    assert (said.code, said.culprit_ranks) == ((together, ()) if is_inside else ("H101", (1,)))


def test_a_wait_below_the_recorder_is_for_peers_whatever_its_line_says():
    recorder = ("_wrapped_wait.<locals>.wait", "/env/lib/python3.11/site-packages/emberward/sources/_wrap.py", 256)
    text = ("import threading", "done = threading.Event()", "done.wait()")

    def line_of(frame: Frame) -> str | None:
        return text[frame.line - 1] if frame.line is not None and frame.line <= len(text) else None

    states = [class_of(stack(1000, 3, *inner), line_of) for inner in ((), (recorder,))]
    assert states == [HostState.LOCK, HostState.COLLECTIVE]


def test_rows_of_torchs_recorder_and_of_the_ring_are_no_mismatch(tmp_path):
    """Torch's tell no reduction, and lists as shapes: of one call they look like two."""
    rings = {rank: ring(num_done=6, is_inside=rank != 2, world=3) for rank in range(3)}
    rows = [{**row, "profiling_name": "gloo:all_reduce", "input_sizes": [[2, 5]]} for row in rings[1].flight["entries"]]
    rings[1] = replace(rings[1], flight={**rings[1].flight, "entries": rows})
    said = explained(tmp_path, rings)
    assert (said.code, said.culprit_ranks) == ("H101", (2,))


def crossed(*left: int, world: int = 4, told: Departed = LEFT) -> dict[int, RingFacts]:
    """Ranks of which the last waits in a call of a group of its own, and all others in the next of the world."""
    rings = {rank: ring(num_done=6, is_inside=rank != world - 1, world=world) for rank in range(world)}
    last = rings[world - 1]
    other = {**entry(1, done=False, line=70), "pg_id": 1, "process_group": ["pair", "pair"], "record_id": 7}
    rings[world - 1] = replace(
        last,
        flight={
            **last.flight,
            "entries": [*last.flight["entries"], {**other, "ring_number": 7}],
            "pg_config": {**last.flight["pg_config"], "pair": {"desc": "pair", "ranks": [0, world - 1]}},
            "pg_status": {**last.flight["pg_status"], "1": {"last_enqueued_collective": 1}},
        },
        blocked_record=7,
    )
    return {rank: replace(facts, departed=told if rank in left else None) for rank, facts in rings.items()}


def test_who_left_its_certificate_is_named_by_it_live_and_in_the_folder(tmp_path):
    rings = crossed(3)
    snapshots = [
        rank_snapshot(3, stack(1003, 70, ("all_reduce", "/x/torch/distributed/distributed_c10d.py", 2999)), rings[3]),
        *(replace(waiting(rank), ring=rings[rank]) for rank in range(3)),
    ]
    live = judge_snapshots(*twice(*snapshots))[0]
    for said in (live, explained(tmp_path, rings)):
        assert (said.code, said.culprit_ranks, said.waiting_ranks) == ("H104", (3,), (0, 1, 2))
        assert (said.cause, said.site, said.severity) == (Cause.EXTRA_COLLECTIVE, "hook.py:12", Severity.ERROR)
        assert said.phase == FindingPhase(step=2, micro_batch=1, stage="F")
        assert said.certainty is Certainty.OBSERVED
        assert LEFT.expected in said.message and LEFT.found in said.message


@pytest.mark.parametrize("left", [(), (1,), (1, 2, 3), (0, 1, 2, 3)])
def test_nobody_is_named_by_a_certificate_that_most_ranks_left_or_one_outside_of_the_cycle(left, tmp_path):
    assert explained(tmp_path, crossed(*left)).site != LEFT.site


@pytest.mark.parametrize(("left", "named"), [(None, ()), (0, (0,)), (1, (1,))])
def test_of_two_calls_that_differ_the_one_that_was_not_proved_is_named(left, named, tmp_path):
    """In the first round of two ranks nothing else tells."""
    rings = {rank: ring(num_done=0, is_inside=True, world=2) for rank in range(2)}
    rows = [entry(1, done=False, dtype="int64")]
    rings[1] = replace(rings[1], flight={**rings[1].flight, "entries": rows})
    told = replace(LEFT, cause=Cause.DTYPE)
    said = explained(tmp_path, {r: replace(facts, departed=told if r == left else None) for r, facts in rings.items()})
    assert (said.code, said.cause, said.culprit_ranks) == ("M102", Cause.DTYPE, named)


@pytest.mark.parametrize("is_outlived", [False, True])
def test_a_departure_lies_in_the_ring_until_its_step_is_over(is_outlived, tmp_path):
    writer = RingWriter(tmp_path / ring_name(rank=1, pid=1), identity_here(rank=1, world_size=2, local_rank=1))
    writer.step(2)
    told = replace(LEFT, site="/job/src/pkg/hook.py:12")
    writer.moment(MarkKind.DEPARTURE, json.dumps(to_plain(told)))
    if is_outlived:
        writer.step(3)
    facts = ring_facts(read_ring(writer.path))
    assert facts.departed == (None if is_outlived else replace(LEFT, site="pkg/hook.py:12"))
    writer.close()
