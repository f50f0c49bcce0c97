"""When two calls of a recorder are the same one, and what is said where none is open."""

from dataclasses import replace

import pytest
from unit.sources.dump_samples import dump, entry, write

from emberward.diagnose._calls import Call
from emberward.diagnose._departures import are_alike
from emberward.sources.dumps import explain_paths

CALL = Call(
    record=1,
    group=("b", "b"),
    seq=1,
    op="all_reduce",
    numel=8,
    out_numel=8,
    dtype="Float",
    is_completed=True,
    timeout_ms=None,
    frames=(),
)


@pytest.mark.parametrize(
    ("other", "is_alike"),
    [
        ({"record": 9, "seq": 5}, True),
        ({"group": ("a", "a")}, False),
        ({"group": ("c", "c")}, False),
        ({"op": "all_gather"}, False),
        ({"op": "broadcast"}, False),
        ({"numel": 4}, False),
    ],
)
def test_calls_are_alike_in_group_operation_and_size(other, is_alike):
    assert are_alike(CALL, replace(CALL, **other)) is is_alike


@pytest.mark.parametrize("is_done", [True, False])
def test_ranks_without_an_open_call_are_said_to_have_none(tmp_path, is_done):
    group = {("0", "default_pg"): [0, 1]}
    write(tmp_path, {rank: dump([entry(1, 1, done=is_done or rank == 0)], group) for rank in range(2)})
    first = explain_paths([tmp_path]).findings[0]
    assert (first.message == "no hang seen: no call is open on any rank that left a dump") is is_done
