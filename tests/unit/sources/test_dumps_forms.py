"""Dumps of one form share a parse, and come to what a whole parse of each comes to."""

import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from emberward.diagnose import RankFlight
from emberward.sources.dumps import FlightReader, explain_paths, load_plain
from emberward.sources.dumps._forms import NUM_UNKNOWN, FormedEntries, FormReader

NUM_RANKS = 16
NUM_CALLS = 420
THREADS = ("main", "backward")


def dumped(rank: int, *, seed: int = 1, num_open: int = 3, late: dict[int, dict[str, Any]] | None = None) -> bytes:
    """The dump of one rank as torch pickles it, of two groups and a pipeline's transfers. `late`: entries changed."""
    rng, mine = random.Random(seed), random.Random(rank)
    pair = f"{100 + rank // 2}"
    groups = [("0", "default_pg", list(range(NUM_RANKS))), (pair, "TP", [rank // 2 * 2, rank // 2 * 2 + 1])]
    # Torch's pickler writes each string once.
    threads = {name: f"{140_000_000_000 + 10 * rank + i}" for i, name in enumerate(THREADS)}
    seqs, entries = [0, 0], []
    for record in range(NUM_CALLS):
        kind, is_p2p = rng.randrange(2), rng.random() < 0.2
        seqs[kind] += not is_p2p
        is_done = record < NUM_CALLS - num_open
        name = f"nccl:{rng.choice(('send 0->1', 'recv 1<-0')) if is_p2p else 'all_reduce'}"
        created = 1_790_000_000_000_000_000 + record * 1_000_000 + mine.randrange(500_000)
        size = rng.choice((64, 1 << 40))
        entries.append(
            {
                "record_id": record,
                "pg_id": kind,
                "process_group": groups[kind][:2],
                "collective_seq_id": seqs[kind],
                "profiling_name": name,
                "time_created_ns": created,
                "input_sizes": [[size]],
                "output_sizes": [[size]],
                "input_dtypes": ["Float"],
                "output_dtypes": ["Float"],
                "state": "completed" if is_done else "scheduled",
                "time_discovered_completed_ns": created + mine.randrange(1 << 20) if is_done else None,
                "duration_ms": mine.random() if is_done else None,
                "retired": is_done,
                "timeout_ms": 600_000,
                "is_p2p": is_p2p,
                "frames": [{"name": "train", "filename": "/job/train.py", "line": rng.randrange(40)}],
                "thread_id": threads[THREADS[record % 40 == 30]],
                **({"tag": 7} if is_p2p else {}),
                **(late or {}).get(record, {}),
            }
        )
    status = {str(i): {"last_enqueued_collective": s, "last_completed_collective": s - 2} for i, s in enumerate(seqs)}
    config = {name: {"name": name, "desc": desc, "ranks": str(members)} for name, desc, members in groups}
    return pickle.dumps({"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries}, protocol=2)


def said(flight: RankFlight) -> dict[str, Any]:
    """All that a judge reads of a rank's dump."""
    parts = {
        name: (
            *(part.ranks, part.seqs, part.signatures, part.enqueued, part.completed, part.is_alike),
            [part.as_call(entry) for entry in part.entries],
        )
        for name, part in flight.groups.items()
    }
    rest = {key: getattr(flight, key) for key in RankFlight.__slots__ if key != "groups"}
    return rest | {"parts": parts}


def read_all(dumps: dict[int, bytes]) -> tuple[dict[int, Any], dict[int, Any], list[int]]:
    """(what each dump says by the forms, what it says by itself, the ranks that shared a form)."""
    forms, by_form, by_itself = FormReader(), FlightReader(), FlightReader()
    shared, plain, sharers = {}, {}, []
    for rank, data in dumps.items():
        value = forms.load(data)
        if isinstance(value["entries"], FormedEntries):
            sharers.append(rank)
        shared[rank] = said(by_form.read(value, rank=rank, path="x"))
        plain[rank] = said(by_itself.read(load_plain(data), rank=rank, path="x"))
    return shared, plain, sharers


def test_dumps_that_share_a_form_say_what_each_says_by_itself() -> None:
    dumps = {rank: dumped(rank, num_open=3 + 8 * (rank % 3)) for rank in range(NUM_RANKS)}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert sharers == list(range(NUM_UNKNOWN, NUM_RANKS))
    assert all(len(flight["thread_ids"]) == 2 for flight in shared.values())
    assert any(flight["p2p_pending"] for flight in shared.values())


@pytest.fixture(scope="module")
def alike() -> dict[int, bytes]:
    """Dumps of one form: enough to learn it, and one more."""
    return {rank: dumped(rank) for rank in (*range(NUM_UNKNOWN + 1), NUM_RANKS - 2)}


@pytest.mark.parametrize(
    "change",
    [
        {"input_sizes": [[1 << 41]]},
        {"input_dtypes": ["Half"]},
        {"profiling_name": "nccl:broadcast"},
        {"retired": False, "state": "started"},
        {"record_id": 10_000},
        {"frames": [{"name": "train", "filename": "/job/other.py", "line": 3}]},
        {"thread_id": "3"},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("place", [100, NUM_CALLS - 20])
def test_a_call_that_differs_is_never_shared(alike: dict[int, bytes], change: dict[str, Any], place: int) -> None:
    dumps = alike | {NUM_RANKS - 1: dumped(NUM_RANKS - 1, late={place: change})}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert (NUM_RANKS - 1 in sharers) is (place > NUM_CALLS // 2)
    assert NUM_RANKS - 2 in sharers


def test_dumps_without_a_form_in_common_are_read_each_by_itself() -> None:
    dumps = {rank: dumped(rank, seed=rank) for rank in range(NUM_RANKS)}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert not sharers


def test_the_one_rank_with_another_size_is_named_among_those_that_share(tmp_path: Path) -> None:
    entries = load_plain(dumped(0, seed=2))["entries"]
    place = next(i for i, e in enumerate(entries) if i > NUM_CALLS // 2 and e["pg_id"] == 0 and not e["is_p2p"])
    change = {place: {"input_sizes": [[3]]}}
    for rank in range(12):
        (tmp_path / f"rank_{rank}").write_bytes(dumped(rank, seed=2, late=change if rank == 9 else None))
    verdict = explain_paths([tmp_path]).explanations[0].verdict
    assert (verdict.code, verdict.culprit_ranks) == ("M102", (9,))


def test_a_cut_dump_of_a_known_form_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for rank in range(NUM_UNKNOWN + 3):
        data = dumped(rank)
        (tmp_path / f"rank_{rank:02}").write_bytes(data[: -len(data) // 3] if rank == NUM_UNKNOWN + 1 else data)
    findings = explain_paths([tmp_path]).findings
    assert [f"rank_{NUM_UNKNOWN + 1:02}" in finding.message for finding in findings if finding.code == "H108"] == [True]
