"""The copy of torch's own recorder in a ring: used where it holds what torch counts, and not where it is older."""

import json
from pathlib import Path

import pytest

from emberward.events import Group
from emberward.sources.dumps import ring_flight
from emberward.sources.ring import FlightCopy, GroupCount, RingView

WORLD = Group(ranks=(0, 1), label="world")


def view_of(*, counted: int, copied: int) -> RingView:
    """A rank whose calls all run below Python: torch counts `counted`, its recorder's copy holds `copied`, one open."""
    entries = [
        {
            "record_id": number,
            "pg_id": 0,
            "process_group": ["0", "default_pg"],
            "collective_seq_id": number,
            "profiling_name": "gloo:all_reduce",
            "input_sizes": [[8]],
            "output_sizes": [[8]],
            "input_dtypes": ["Float"],
            "output_dtypes": ["Float"],
            "time_created_ns": number,
            "retired": number < copied,
            "state": "completed" if number < copied else "scheduled",
            "is_p2p": False,
            "frames": [],
        }
        for number in range(1, copied + 1)
    ]
    status = {"0": {"last_enqueued_collective": copied, "last_completed_collective": copied - 1}}
    dump = {"version": "2.10", "entries": entries, "pg_status": status}
    return RingView(
        path=Path("rank0.ring"),
        read_unix=100.0,
        read_ns=0,
        rank=0,
        world_size=2,
        moved_age_s=5.0,
        groups={
            WORLD: GroupCount(issued=0, completed=0, p2p_issued=0, p2p_completed=0, sequence=counted, moved_ns=None)
        },
        flight=FlightCopy(data=json.dumps(dump).encode(), taken_unix=95.0),
    )


@pytest.mark.parametrize(("counted", "num_rows"), [(3, 3), (4, 0)], ids=["holds all calls", "calls were made since"])
def test_a_copy_is_used_only_when_it_holds_every_call_that_torch_counts(counted, num_rows):
    flight = ring_flight(view_of(counted=counted, copied=3))
    assert len(flight["entries"]) == num_rows
    assert flight["pg_status"]["0"]["last_enqueued_collective"] == counted
