"""The events of an attempt's first steps: those of an earlier attempt are not left beside them."""

from emberward.events import Observer, read_trace
from emberward.rank._events import StepRecorder


def recorder(folder, rank: int, world_size: int) -> StepRecorder:
    return StepRecorder(folder / f"rank{rank:05d}.jsonl", rank=rank, world_size=world_size, num_steps=1)


def test_the_traces_of_an_attempt_of_more_ranks_are_removed(tmp_path):
    for rank in range(4):
        recorder(tmp_path, rank, 4).end_step()
    (tmp_path / "attempt-0001").mkdir()
    (tmp_path / "attempt-0001" / "rank00003-7.ring").write_bytes(b"x")
    for rank in (0, 1):
        recorder(tmp_path, rank, 2).end_step()
    traces = sorted(tmp_path.glob("rank*.jsonl"))
    assert [path.name for path in traces] == ["rank00000.jsonl", "rank00001.jsonl"]
    assert {read_trace(path).world_size for path in traces} == {2}
    assert read_trace(traces[0]).observer is Observer.LIVE
    assert (tmp_path / "attempt-0001" / "rank00003-7.ring").exists()
