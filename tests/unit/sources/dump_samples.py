"""Where the recorded dumps lie, and dumps made by hand."""

import json
import pickle
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "data"
HANGS = DATA / "hangs"
PROGRAM = (HANGS / "hang_program.py").read_text(encoding="utf-8").splitlines()
T0_NS = 1_790_000_000_000_000_000


def about(name: str) -> dict[str, Any]:
    """The truth about a recorded program."""
    return json.loads((HANGS / name / "about.json").read_text(encoding="utf-8"))


def names(*, alive: bool = False) -> list[str]:
    """The recorded programs: those that hang, or those that only look so."""
    found = sorted(path.parent.name for path in HANGS.glob("*/about.json"))
    return [name for name in found if (HANGS / name / "look0").exists() is alive]


def program_line(site: str | None) -> str:
    """The text of the program's line that a finding names."""
    if site is None or not site.startswith("hang_program.py:"):
        return ""
    return PROGRAM[int(site.rpartition(":")[2]) - 1].strip()


def entry(
    record: int,
    seq: int,
    *,
    pg: tuple[int, str, str] = (0, "0", "default_pg"),
    op: str = "all_reduce",
    done: bool = True,
    size: int = 8,
    dtype: str = "Float",
    line: int = 10,
    backend: str = "nccl",
    peer: str = "",
) -> dict[str, Any]:
    """One entry of format 2.10."""
    return {
        "record_id": record,
        "pg_id": pg[0],
        "process_group": (pg[1], pg[2]),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "op_id": record,
        "profiling_name": f"{backend}:{op}{' ' + peer if peer else ''}",
        "time_created_ns": T0_NS + record * 100_000_000,
        "input_sizes": [[size]],
        "input_dtypes": [dtype],
        "output_sizes": [[size]],
        "output_dtypes": [dtype],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": bool(peer),
        "frames": [
            {"name": op, "filename": "site-packages/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": "train", "filename": "/job/train.py", "line": line},
        ],
        "thread_id": "140000000000001",
    }


def dump(
    entries: list[dict[str, Any]],
    groups: dict[tuple[str, str], list[int]],
    *,
    status: dict[int, tuple[int, int]] | None = None,
    version: str = "2.10",
) -> dict[str, Any]:
    """A dump with these entries. `status`: pg_id -> (enqueued, completed); None leaves it out, as old formats do."""
    out: dict[str, Any] = {
        "version": version,
        "pg_config": {
            name: {"name": name, "desc": desc, "ranks": str(ranks)} for (name, desc), ranks in groups.items()
        },
        "entries": entries,
    }
    if status is not None:
        out["pg_status"] = {
            str(pg): {"last_enqueued_collective": e, "last_started_collective": -1, "last_completed_collective": c}
            for pg, (e, c) in status.items()
        }
    return out


def write(folder: Path, dumps: dict[int, dict[str, Any]], *, form: str = "pickle", prefix: str = "rank_") -> Path:
    """Writes dumps as files ``PREFIXn`` into `folder`, which is made when it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, data in dumps.items():
        raw = pickle.dumps(data, protocol=2) if form == "pickle" else json.dumps(data).encode()
        (folder / f"{prefix}{rank}").write_bytes(raw)
    return folder
