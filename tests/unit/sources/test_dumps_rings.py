"""``explain`` on the rings of a run's folder: who waits, who raised; a damaged ring is a finding and no traceback."""

import os
import random
from pathlib import Path

from emberward.events import CollectiveOp, Group
from emberward.findings import Cause, Certainty, Kind
from emberward.sources.dumps import explain_paths
from emberward.sources.ring import MarkKind, RingWriter, identity_here, ring_name
from emberward.sources.ring._format import OP_OF_COLLECTIVE, CallFlag

WORLD = Group(ranks=(0, 1, 2), label="world")
ALL_REDUCE = OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE]


def write_ring(folder: Path, rank: int, *, num_done: int, is_inside: bool, dtype: int = 1, error: str = "") -> Path:
    path = folder / ring_name(rank=rank, pid=os.getpid())
    writer = RingWriter(path, identity_here(rank=rank, world_size=3, local_rank=rank))
    group, site = writer.group(WORLD), writer.site("/job/train.py", 43, "step")
    for _ in range(num_done):
        writer.done(writer.call(ALL_REDUCE, group, 128, dtype, site, CallFlag.BLOCKING), group)
    if is_inside:
        writer.call(ALL_REDUCE, group, 128, dtype, site, CallFlag.BLOCKING)
    if error:
        writer.moment(MarkKind.EXCEPTION, error, site=writer.site("/job/data.py", 7, "load"))
    writer.close()
    return path


def test_rings_name_the_rank_that_never_arrived(tmp_path: Path) -> None:
    for rank in range(3):
        write_ring(tmp_path, rank, num_done=5, is_inside=rank != 1)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.waiting_ranks) == ("H101", (1,), (0, 2))


def test_rings_of_a_job_that_stood_nowhere_name_nobody(tmp_path: Path) -> None:
    for rank in range(3):
        write_ring(tmp_path, rank, num_done=5, is_inside=False)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.kind, finding.culprit_ranks) == ("H110", Kind.NONE, ())


def test_a_ring_tells_the_exception_that_ended_its_rank_and_not_its_echo(tmp_path: Path) -> None:
    write_ring(tmp_path, 0, num_done=5, is_inside=True, error="RuntimeError: Connection closed by peer")
    write_ring(tmp_path, 1, num_done=5, is_inside=False, error="ValueError: label 1001 of 1000")
    write_ring(tmp_path, 2, num_done=5, is_inside=True)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("L102", (1,), Cause.EXCEPTION)
    assert finding.site == "data.py:7"


def test_rings_of_dead_ranks_tell_a_type_that_differed(tmp_path: Path) -> None:
    for rank in range(3):
        write_ring(tmp_path, rank, num_done=5, is_inside=False, dtype=6 if rank == 2 else 1)
    finding = explain_paths([tmp_path]).explanations[0].verdict
    assert (finding.code, finding.culprit_ranks, finding.cause) == ("M102", (2,), Cause.DTYPE)
    assert finding.certainty is Certainty.OBSERVED


def test_damaged_rings_are_findings(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    rng = random.Random(seed)
    paths = [write_ring(tmp_path, rank, num_done=5, is_inside=rank != 1) for rank in range(3)]
    whole = [path.read_bytes() for path in paths]
    for number in range(40):
        for path, data in zip(paths, whole, strict=True):
            damaged = bytearray(data)
            for _ in range(rng.randrange(1, 40)):
                damaged[rng.randrange(7, 20_000 if number % 2 else len(damaged))] = rng.randrange(256)
            path.write_bytes(damaged if number % 3 else damaged[: rng.randrange(8, len(damaged))])
        assert explain_paths([tmp_path]).findings, f"seed {seed}"
