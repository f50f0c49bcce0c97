"""Times of the device, and who is late by them, on real ranks whose waits do not block. See docs/recorder.md."""

import functools
import statistics
from itertools import pairwise
from pathlib import Path

import pytest
from ports import reserve_port

from emberward.events import Collective, HostSync, LaneKind, Wait
from emberward.findings import Cause
from emberward.lens import RankCalls, RankTimeline, timeline
from emberward.sources.live._own_time import own_times
from emberward.sources.live._stragglers import StragglerWatch
from emberward.sources.ring import find_rings, new_ring_folder, read_ring, remove_ring_folder
from ranks.hangs.driver import warm_ranks
from ranks.recorded.device_times import KERNEL_S, LATE_S, STEPS

PROGRAM = Path(__file__).parent / "recorded" / "device_times.py"
WORLD, LATE, NUMEL = 3, 1, 1024
BOUND_S = 0.010
"""Within this a median over the steps agrees with a planted delay: a third of it, for ranks that share two cores."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The rings of a program after its end, by rank; each runs when it is first asked for."""
    server, folders = warm_ranks(), {}

    @functools.cache
    def run(kind):
        rings = folders[kind] = new_ring_folder(f"test-{kind}")
        log = tmp_path_factory.mktemp(kind) / "log"
        env = {"WORLD_SIZE": str(WORLD), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserve_port())}
        env |= {"EMBERWARD_RING": str(rings), "OMP_NUM_THREADS": "1"}
        with log.open("wb") as out:
            started = [
                server.start(
                    [str(PROGRAM), kind],
                    cwd=log.parent,
                    stdout=out,
                    stderr=out,
                    env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                )
                for rank in range(WORLD)
            ]
        assert [each.wait(120.0) for each in started] == [0] * WORLD, log.read_text()
        return {view.rank: view for view in map(read_ring, find_rings(rings))}

    yield run
    for rings in folders.values():
        remove_ring_folder(rings)


def gradients(view):
    return [e for e in view.events if isinstance(e.body, Collective) and e.body.numel == NUMEL]


def lateness_s(views):
    """How much later than the middle of its peers the late rank's device came to the gradients, and its host."""
    found = []
    for of in (lambda event: event.started_ns, lambda event: event.issued_ns):
        rows = zip(*(map(of, gradients(views[rank])) for rank in sorted(views)), strict=True)
        found.append(
            statistics.median(row[LATE] - statistics.median(row[:LATE] + row[LATE + 1 :]) for row in rows) / 1e9
        )
    return tuple(found)


@pytest.mark.parametrize("kind", ["slow_device", "late_host", "hidden_host"])
def test_every_call_has_the_times_of_the_device(jobs, kind):
    views = jobs(kind)
    for rank, view in views.items():
        assert view.problems == ()
        calls = [e for e in view.events if isinstance(e.body, Collective)]
        assert len(calls) == 2 * STEPS
        assert all(e.lane.kind is LaneKind.COMM for e in calls)
        for one, other in pairwise(calls):
            assert one.issued_ns <= one.started_ns <= one.completed_ns <= other.started_ns, (rank, one)
        # A gradient ends once every rank's device has come to it, not when its wait returned, which was at once.
        peers = [gradients(views[other]) for other in views]
        for number, call in enumerate(gradients(view)):
            assert call.completed_ns >= max(each[number].started_ns for each in peers)


def test_the_host_waits_where_it_reads_and_the_stream_where_it_was_told_to(jobs):
    for view in jobs("slow_device").values():
        reads = [e for e in view.events if isinstance(e.body, HostSync)]
        waits = [e for e in view.events if isinstance(e.body, Wait)]
        assert len(reads) == STEPS and all(e.lane.kind is LaneKind.HOST for e in reads)
        assert len(waits) == STEPS and all(e.lane.kind is LaneKind.STREAM for e in waits)
        # The kernel is in no call: the host waits for it in its read, the stream does not wait.
        read_s = statistics.median(e.completed_ns - e.issued_ns for e in reads) / 1e9
        assert read_s >= KERNEL_S
    stalls = {
        rank: statistics.median((e.completed_ns - e.started_ns) / 1e9 for e in view.events if isinstance(e.body, Wait))
        for rank, view in jobs("slow_device").items()
    }
    assert stalls[LATE] < BOUND_S
    assert all(abs(stalls[rank] - LATE_S) < BOUND_S for rank in stalls if rank != LATE), stalls


@pytest.mark.parametrize(
    ("kind", "device_s", "host_s"),
    [("slow_device", LATE_S, 0), ("late_host", LATE_S, LATE_S), ("hidden_host", 0, LATE_S)],
)
def test_times_agree_with_the_planted_delay(jobs, kind, device_s, host_s):
    assert lateness_s(jobs(kind)) == pytest.approx((device_s, host_s), abs=BOUND_S)


class NoSamples:
    """Instead of py-spy: nothing is running any more."""

    is_done = True

    def take(self, line_of, *, within_s=0.0):
        return {}

    def close(self):
        """Nothing runs."""


@pytest.mark.parametrize("kind", ["slow_device", "late_host"])
def test_a_straggler_is_named_by_the_times_of_the_device(jobs, kind):
    (finding,) = StragglerWatch(line_of=lambda frame: None, sample=lambda pids, s: NoSamples()).conclude(jobs(kind))
    assert (finding.cause, finding.culprit_ranks, finding.waiting_ranks) == (Cause.SLOW_RANK, (LATE,), (0, 2))
    excess_ms = float(finding.message.partition("every step: ")[2].partition(" ms")[0])
    assert excess_ms == pytest.approx(1000 * LATE_S, abs=1000 * BOUND_S)


def test_a_late_host_is_no_straggler_while_its_device_is_not(jobs):
    views = jobs("hidden_host")
    assert StragglerWatch(line_of=lambda frame: None, sample=lambda pids, s: NoSamples()).conclude(views) == ()
    own = {rank: statistics.median(step.own_s for step in own_times(view).steps) for rank, view in views.items()}
    assert max(own.values()) - min(own.values()) < BOUND_S


def test_the_timeline_draws_calls_on_the_communicators_track_at_the_times_of_the_device(jobs):
    views = jobs("slow_device")
    ranks = [
        RankTimeline(
            calls=RankCalls(rank=rank, events=view.events, sequences=view.sequences),
            spans=(),
            tracks={},
            host=view.host,
        )
        for rank, view in sorted(views.items())
    ]
    events = timeline(ranks)["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    drawn = [e for e in events if e["ph"] == "X" and names[e["pid"], e["tid"]] == "world stream"]
    assert len(drawn) >= WORLD * 2 * STEPS
    for rank, view in views.items():
        lengths = {round((e.completed_ns - e.started_ns) / 1000, 3) for e in gradients(view)}
        assert lengths <= {e["dur"] for e in drawn if e["pid"] == rank}
    arrows = [e for e in events if e["ph"] == "s"]
    assert statistics.mode(e["pid"] for e in arrows) == LATE
    assert PROGRAM.name in drawn[0]["args"]["line"]
