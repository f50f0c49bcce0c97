"""Dumps of one form share a parse, and come to what a whole parse of each comes to."""

import json
import pickle
import random
import re
from pathlib import Path
from typing import Any

import pytest

from emberward.diagnose import RankFlight
from emberward.sources.dumps import FlightReader, explain_paths, load_plain
from emberward.sources.dumps._forms import NUM_UNKNOWN, FormedEntries, FormReader
from emberward.sources.dumps._json_forms import json_form
from emberward.sources.dumps._pickle_forms import pickle_form

NUM_RANKS = 16
NUM_CALLS = 420
THREADS = ("main", "backward")
FORMS = ("pickle", "python json", "torch json")


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    """How the dumps are written; torch's JSON is in the order of keys and has no spaces."""
    return request.param


def written(dump: dict[str, Any], form: str) -> bytes:
    if form == "pickle":
        return pickle.dumps(dump, protocol=2)
    text = json.dumps(dump) if form == "python json" else json.dumps(dump, sort_keys=True, separators=(",", ":"))
    return text.encode()


def dumped(
    rank: int, form: str, *, seed: int = 1, num_open: int = 3, late: dict[int, dict[str, Any]] | None = None
) -> bytes:
    """The dump of one rank as torch writes it, of two groups and a pipeline's transfers. `late`: entries changed."""
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
    return written({"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries}, form)


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
    is_pickle = next(iter(dumps.values()))[:1] == b"\x80"
    load = load_plain if is_pickle else json.loads
    forms, by_form, by_itself = (
        FormReader(load, pickle_form if is_pickle else json_form),
        FlightReader(),
        FlightReader(),
    )
    shared, plain, sharers = {}, {}, []
    for rank, data in dumps.items():
        value = forms.load(data)
        if isinstance(value["entries"], FormedEntries):
            sharers.append(rank)
        shared[rank] = said(by_form.read(value, rank=rank, path="x"))
        plain[rank] = said(by_itself.read(load(data), rank=rank, path="x"))
    return shared, plain, sharers


def test_dumps_that_share_a_form_say_what_each_says_by_itself(form: str) -> None:
    dumps = {rank: dumped(rank, form, num_open=3 + 8 * (rank % 3)) for rank in range(NUM_RANKS)}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert sharers == list(range(NUM_UNKNOWN, NUM_RANKS))
    assert all(len(flight["thread_ids"]) == 2 for flight in shared.values())
    assert any(flight["p2p_pending"] for flight in shared.values())


@pytest.fixture(scope="module")
def alike(form: str) -> dict[int, bytes]:
    """Dumps of one form: enough to learn it, and one more."""
    return {rank: dumped(rank, form) for rank in (*range(NUM_UNKNOWN + 1), NUM_RANKS - 2)}


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
        {"process_group": ("7", "TP")},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("place", [100, NUM_CALLS - 20])
def test_a_call_that_differs_is_never_shared(
    alike: dict[int, bytes], form: str, change: dict[str, Any], place: int
) -> None:
    dumps = alike | {NUM_RANKS - 1: dumped(NUM_RANKS - 1, form, late={place: change})}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert (NUM_RANKS - 1 in sharers) is (place > NUM_CALLS // 2)
    assert NUM_RANKS - 2 in sharers


def test_dumps_without_a_form_in_common_are_read_each_by_itself(form: str) -> None:
    dumps = {rank: dumped(rank, form, seed=rank) for rank in range(NUM_RANKS)}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert not sharers


def test_the_one_rank_with_another_size_is_named_among_those_that_share(tmp_path: Path, form: str) -> None:
    entries = load_plain(dumped(0, "pickle", seed=2))["entries"]
    place = next(i for i, e in enumerate(entries) if i > NUM_CALLS // 2 and e["pg_id"] == 0 and not e["is_p2p"])
    change = {place: {"input_sizes": [[3]]}}
    for rank in range(12):
        (tmp_path / f"rank_{rank}").write_bytes(dumped(rank, form, seed=2, late=change if rank == 9 else None))
    verdict = explain_paths([tmp_path]).explanations[0].verdict
    assert (verdict.code, verdict.culprit_ranks) == ("M102", (9,))


def test_a_cut_dump_of_a_known_form_is_a_file_that_cannot_be_read(tmp_path: Path, form: str) -> None:
    for rank in range(NUM_UNKNOWN + 3):
        data = dumped(rank, form)
        (tmp_path / f"rank_{rank:02}").write_bytes(data[: -len(data) // 3] if rank == NUM_UNKNOWN + 1 else data)
    findings = explain_paths([tmp_path]).findings
    assert [f"rank_{NUM_UNKNOWN + 1:02}" in finding.message for finding in findings if finding.code == "H108"] == [True]


@pytest.mark.parametrize(
    ("told", "instead"),
    [
        (b'"time_created_ns": 1', b'"time_created_ns": 0'),
        (b'"time_created_ns": 1', b'"time_created_ns": x'),
        (b'"time_created_ns": 17', b'"time_created_ns": 1.'),
        (b'"duration_ms": 0.', b'"duration_ms": 0,'),
        (b'"thread_id": "', b'"thread_id": \n'),
        (b'"retired": true', b'"retired": trye'),
    ],
)
def test_damage_within_a_known_form_is_found(told: bytes, instead: bytes) -> None:
    forms = FormReader(json.loads, json_form)
    for rank in range(NUM_UNKNOWN):
        forms.load(dumped(rank, "python json"))
    data = dumped(NUM_UNKNOWN, "python json")
    assert isinstance(forms.load(data)["entries"], FormedEntries)
    at = data.index(told, len(data) // 2)
    hurt = data[:at] + instead + data[at + len(told) :]
    try:
        expected = json.loads(hurt)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            forms.load(hurt)
    else:
        assert forms.load(hurt) == expected


def test_a_group_that_is_used_at_the_end_alone_is_named_for_each_rank(form: str) -> None:
    late = [{"pg_id": 5, "process_group": (f"{900 + rank // 2}", "CP")} for rank in range(NUM_RANKS)]
    dumps = {rank: dumped(rank, form, late={NUM_CALLS - 20: late[rank]}) for rank in range(NUM_RANKS)}
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert sharers


def test_a_dump_in_json_with_its_entries_told_twice_is_no_form() -> None:
    data = dumped(0, "python json")
    text = data.decode()
    entries = json.loads(text)["entries"]
    again = text[:-1] + ', "entries": ' + json.dumps(entries[::-1]) + "}"
    assert json_form(data, entries) is not None
    assert json_form(again.encode(), json.loads(again)["entries"]) is None
    nested = text.replace('"time_created_ns": ', '"frames_ns": {"time_created_ns": 5}, "time_created_ns": ', 1)
    assert json_form(nested.encode(), json.loads(nested)["entries"]) is None


def test_a_long_name_is_not_written_out_at_each_of_its_places() -> None:
    name = "x" * 1_000
    dumps = {
        rank: dumped(rank, "torch json").replace(b'"default_pg"', b'"%b%d"' % (name.encode(), rank % 2))
        for rank in range(NUM_RANKS)
    }
    shared, plain, sharers = read_all(dumps)
    assert shared == plain
    assert all(rank % 2 == (NUM_UNKNOWN - 1) % 2 for rank in sharers)
