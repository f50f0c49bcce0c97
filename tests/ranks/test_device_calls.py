"""The recorder where a wait does not block: when a call ends, and what the host waits for."""

import os
from pathlib import Path

import pytest
from ports import reserve_port

from emberward.events import Collective, HostSync, Send, State
from emberward.sources.dumps import ring_facts
from emberward.sources.ring import find_rings, new_ring_folder, read_ring, remove_ring_folder
from ranks.hangs.driver import warm_ranks

PROGRAM = Path(__file__).parent / "recorded" / "device_calls.py"


@pytest.fixture
def ranks(tmp_path):
    rings, server = new_ring_folder("test-device"), warm_ranks()
    for rank in (0, 1):
        os.mkfifo(tmp_path / f"fifo{rank}")
    env = {
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(reserve_port()),
        "EMBERWARD_RING": str(rings),
    }
    started = []
    for rank in (0, 1):
        with (tmp_path / f"log{rank}").open("wb") as out:
            own = {**env, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            started.append(server.start([str(PROGRAM), str(tmp_path)], cwd=tmp_path, stdout=out, stderr=out, env=own))
    yield rings, started
    remove_ring_folder(rings)


def test_a_call_ends_when_the_device_has_ended_it_and_the_host_waits_where_it_reads(ranks, tmp_path, wait_until):
    rings, started = ranks

    def view():
        assert None in [rank.poll() for rank in started], (tmp_path / "log0").read_text() + (
            tmp_path / "log1"
        ).read_text()
        return next((each for each in map(read_ring, find_rings(rings)) if each.rank == 0), None)

    def call(numel):
        found = view()
        events = () if found is None else found.events
        return next((e for e in events if isinstance(e.body, Collective) and e.body.numel == numel), None)

    def tell(rank):
        (tmp_path / f"fifo{rank}").write_text("go")

    wait_until(lambda: call(5) is not None, "rank 0 to launch its call of 5", timeout_s=120.0)
    seen = view()
    assert seen.problems == ()
    assert call(5).state is State.ISSUED
    facts = ring_facts(seen)
    assert (facts.blocked_record, facts.waits_for_device) == (None, False), "rank 0 is in its own code"
    # Whatever came before has ended, though rank 0 dropped every work at once.
    wait_until(lambda: [e.body for e in view().events if e.state is State.ISSUED] == [call(5).body], "the other ends")
    assert any(isinstance(e.body, Send) for e in seen.events)
    tell(1)
    wait_until(lambda: call(5).state is State.COMPLETED, "the end of the call to be seen from beside")
    assert not any(isinstance(e.body, HostSync) and e.completed_ns is None for e in view().events)
    tell(0)
    wait_until(lambda: ring_facts(view()).waits_for_device, "rank 0 to read a value")
    seen = view()
    assert ring_facts(seen).blocked_record == seen.numbers[call(7).ref]
    assert call(7).state is State.ISSUED
    tell(1)
    assert [rank.wait(60.0) for rank in started] == [0, 0], (tmp_path / "log0").read_text()
