"""What several hosts kept of one job is one incident."""

import os
from dataclasses import replace
from pathlib import Path

from emberward.events import CollectiveOp, Group
from emberward.findings import Cause, Kind
from emberward.sources.dumps import explain_paths
from emberward.sources.ring import RingWriter, identity_here, ring_name
from emberward.sources.ring._format import OP_OF_COLLECTIVE, CallFlag

WORLD = Group(ranks=(0, 1, 2), label="world")
ALL_REDUCE = OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE]


def keep(folder: Path, rank: int, *, is_inside: bool) -> Path:
    """The run folder of a host with one rank, which has made six calls and sits in the seventh or not."""
    rings = folder / f"runs{rank}" / "events" / "attempt-0000"
    rings.mkdir(parents=True)
    identity = replace(identity_here(rank=rank, world_size=3, local_rank=0), host=f"node{rank + 1}")
    writer = RingWriter(rings / ring_name(rank=rank, pid=os.getpid() + rank), identity)
    group, site = writer.group(WORLD), writer.site("/job/train.py", 43, "step")
    for _ in range(6):
        writer.done(writer.call(ALL_REDUCE, group, 8, 1, site, CallFlag.BLOCKING), group)
    if is_inside:
        writer.call(ALL_REDUCE, group, 8, 1, site, CallFlag.BLOCKING)
    writer.close()
    return folder / f"runs{rank}"


def test_the_run_folders_of_three_hosts_are_explained_as_one_job(tmp_path):
    folders = [keep(tmp_path, rank, is_inside=rank != 2) for rank in range(3)]
    (explanation,) = explain_paths(folders).explanations
    verdict = explanation.verdict
    assert (verdict.kind, verdict.cause) == (Kind.HANG, Cause.UNKNOWN)
    assert (verdict.culprit_ranks, verdict.waiting_ranks) == ((2,), (0, 1))


def test_a_job_that_every_host_left_alike_names_nobody(tmp_path):
    folders = [keep(tmp_path, rank, is_inside=False) for rank in range(3)]
    (explanation,) = explain_paths(folders).explanations
    assert explanation.verdict.culprit_ranks == ()
