"""Explain against torch's own analyzer on the same synthetic flight-recorder dumps, in the same run.

``python benchmarks/explain_scale.py [--ranks 512] [--entries 2000] [--seed 8123]``

Writes dumps in NCCL's form (TP8 x DP, one rank that never arrives) as pickles and as JSON, then runs each reader in a
process of its own and takes its CPU and wall time: reading the files, the analysis after that, and the whole. torch's
analyzer (``torch.distributed.flight_recorder``) reads pickles only; for JSON its loader is given ``json.load``.

``--only-large`` reads the dumps of 16,384 ranks, 8 GB of pickles, with ours alone: torch's analysis would take hours.
``--kept FOLDER`` keeps these dumps, or takes those that an earlier run has kept.
"""

import argparse
import json
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

TP = 8
LARGE = 16_384
FRAMES = [
    {"name": "all_reduce", "filename": "site-packages/torch/distributed/distributed_c10d.py", "line": 3245},
    {"name": "forward", "filename": "/job/model.py", "line": 120},
    {"name": "train_step", "filename": "/job/train.py", "line": 41},
    {"name": "main", "filename": "/job/train.py", "line": 77},
]


def groups_of(rank: int, num_ranks: int) -> list[tuple[str, str, list[int]]]:
    """The groups of a rank: world, its TP group, its DP group."""
    tp, dp = rank // TP, rank % TP
    return [
        ("0", "default_pg", list(range(num_ranks))),
        (str(1 + tp), "TENSOR_MODEL_PARALLEL_GROUP", list(range(tp * TP, tp * TP + TP))),
        (str(1 + num_ranks // TP + dp), "DATA_PARALLEL_GROUP", list(range(dp, num_ranks, TP))),
    ]


def make_dump(rank: int, *, num_ranks: int, num_entries: int, guilty: int, rng_seed: int) -> dict[str, Any]:
    """One rank's dump. `guilty` stops before its last TP call; the others run until what needs it is open."""
    rng = random.Random(rng_seed)
    groups = groups_of(rank, num_ranks)
    # Torch's pickler writes a string once, and a number that says where it is from then on.
    thread_id = str(140_000_000_000_000 + rank)
    seqs = [0, 0, 0]
    entries: list[dict[str, Any]] = []
    blocked_by = {guilty} if rank == guilty else set()
    last = num_entries - 12
    for number in range(num_entries):
        kind = 1 if number % 4 else (2 if number % 8 else 0)
        size = rng.choice((4096, 8192, 16384))
        is_late = number >= last
        if is_late and rank == guilty:
            break
        if is_late and blocked_by:
            break
        seqs[kind] += 1
        name, desc, members = groups[kind]
        is_open = is_late and guilty in members
        if is_open:
            blocked_by.add(guilty)
        elif number >= last + 4:
            is_open = True
            blocked_by.add(guilty)
        entries.append(
            {
                "record_id": number,
                "pg_id": kind,
                "process_group": (name, desc),
                "collective_seq_id": seqs[kind],
                "p2p_seq_id": 0,
                "op_id": seqs[kind],
                "profiling_name": "nccl:all_reduce",
                "time_created_ns": 1_790_000_000_000_000_000 + number * 1_000_000 + rank,
                "input_sizes": [[size, 8]],
                "input_dtypes": ["BFloat16"],
                "output_sizes": [[size, 8]],
                "output_dtypes": ["BFloat16"],
                "state": "scheduled" if is_open else "completed",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": not is_open,
                "timeout_ms": 600_000,
                "is_p2p": False,
                "frames": FRAMES,
                "thread_name": "python",
                "thread_id": thread_id,
            }
        )
    status = {
        str(kind): {
            "last_enqueued_collective": seqs[kind],
            "last_started_collective": -1,
            "last_completed_collective": seqs[kind]
            - sum(e["pg_id"] == kind and not e["retired"] for e in entries[-16:]),
        }
        for kind in range(3)
    }
    config = {name: {"name": name, "desc": desc, "ranks": str(members)} for name, desc, members in groups}
    return {"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries}


def write_dumps(folder: Path, *, num_ranks: int, num_entries: int, guilty: int, seed: int, form: str) -> int:
    """Writes the dumps of all ranks as ``rank_N`` and returns their bytes."""
    folder.mkdir(parents=True)
    total = 0
    for rank in range(num_ranks):
        dump = make_dump(rank, num_ranks=num_ranks, num_entries=num_entries, guilty=guilty, rng_seed=seed)
        data = pickle.dumps(dump, protocol=2) if form == "pickle" else json.dumps(dump).encode()
        (folder / f"rank_{rank}").write_bytes(data)
        total += len(data)
    return total


def _clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(start: tuple[float, float]) -> dict[str, float]:
    return {"wall_s": round(time.perf_counter() - start[0], 3), "cpu_s": round(time.process_time() - start[1], 3)}


def run_ours(folder: Path) -> dict[str, Any]:
    """Ours in two ways: files to verdict in one go, and the analysis alone on dumps that are already loaded."""
    imported = _clock()
    from emberward.diagnose import Evidence, judge
    from emberward.sources.dumps import FlightReader, explain_paths, load_plain

    imports = _since(imported)
    whole = _clock()
    verdict = explain_paths([folder]).explanations[0].verdict
    end_to_end = _since(whole)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    import gc

    gc.disable()
    loading = _clock()
    raw = {}
    for path in folder.iterdir():
        data = path.read_bytes()
        raw[int(path.name.removeprefix("rank_"))] = json.loads(data) if data[:1] == b"{" else load_plain(data)
    loaded = _since(loading)
    analysis = _clock()
    reader = FlightReader()
    evidence = Evidence(label="x")
    for rank in sorted(raw):
        evidence.flights[rank] = reader.read(raw[rank], rank=rank, path=f"rank_{rank}")
    again = judge(evidence).verdict
    return {
        "imports": imports,
        "load": loaded,
        "analysis": _since(analysis),
        "end_to_end": end_to_end,
        "peak_mb_end_to_end": peak,
        "answer": {
            "culprit_ranks": list(verdict.culprit_ranks),
            "kind": verdict.kind.value,
            "message": verdict.message,
        },
        "same_answer_from_loaded": again.culprit_ranks == verdict.culprit_ranks,
    }


def run_large(folder: Path) -> dict[str, Any]:
    """Ours from the files to the verdict, once."""
    from emberward.sources.dumps import explain_paths

    whole = _clock()
    verdict = explain_paths([folder]).explanations[0].verdict
    return {
        "end_to_end": _since(whole),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "answer": {
            "culprit_ranks": list(verdict.culprit_ranks),
            "kind": verdict.kind.value,
            "message": verdict.message[:200],
        },
    }


def measure_large(folder: Path, *, num_entries: int, seed: int) -> dict[str, Any]:
    """Ours on the dumps of `LARGE` ranks in `folder`, which are written where it is not there."""
    guilty = random.Random(seed).randrange(LARGE)
    if not folder.exists():
        write_dumps(folder, num_ranks=LARGE, num_entries=num_entries, guilty=guilty, seed=seed, form="pickle")
    size = sum(path.stat().st_size for path in folder.iterdir())
    return {"ranks": LARGE, "bytes": size, "guilty_rank": guilty, "ours": _child("large", folder)}


def run_torch(folder: Path) -> dict[str, Any]:
    """torch's analyzer: its own loader, then build_db."""
    imported = _clock()
    from torch.distributed.flight_recorder.components import builder, loader
    from torch.distributed.flight_recorder.components.config_manager import JobConfig

    imports = _since(imported)
    args = JobConfig().parse_args([str(folder), "-p", "rank_"])
    if (folder / "rank_0").read_bytes()[:1] == b"{":
        loader.pickle = json
    whole = _clock()
    details, version = loader.read_dir(args)
    load = _since(whole)
    analysis = _clock()
    builder.build_db(details, args, version)
    return {
        "imports": imports,
        "load": load,
        "analysis": _since(analysis),
        "end_to_end": _since(whole),
        "peak_mb_end_to_end": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _child(tool: str, folder: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--tool", tool, "--folder", str(folder)], capture_output=True, text=True, check=False
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"failed": done.stderr[-2000:]}
    result: dict[str, Any] = json.loads(lines[-1])
    if tool == "torch":
        said = [
            line
            for line in (done.stdout + done.stderr).splitlines()
            if "Not all ranks" in line or "Culprit" in line or "missing ranks" in line.lower()
        ]
        result["answer"] = {"lines": len(said), "first": said[:2], "last": [line[:300] for line in said[-2:]]}
    return result


def main() -> None:
    """Makes the dumps, runs both, writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=512)
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=8123)
    add_options(parser)
    parser.add_argument("--tool", choices=("ours", "torch", "large"), default=None)
    parser.add_argument("--only-large", action="store_true")
    parser.add_argument("--kept", type=Path, default=None)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    if options.tool is not None:
        result = {"ours": run_ours, "torch": run_torch, "large": run_large}[options.tool](options.folder)
        sys.stdout.write("\n" + json.dumps(result) + "\n")
        return
    guilty = random.Random(options.seed).randrange(options.ranks)
    results = Results(
        "explain_scale",
        what="ours and torch's analyzer on the same dumps, each in its own process; the ratios of processor time count",
        measures=["src/emberward/sources/dumps", "src/emberward/diagnose", "src/emberward/match"],
        settings={"ranks": options.ranks, "entries": options.entries, "seed": options.seed},
        is_fresh=options.fresh,
        folder=options.into,
    )
    with tempfile.TemporaryDirectory() as scratch:
        if options.only_large:
            folder = options.kept or Path(scratch) / "large"
            results.add("large", measure_large(folder, num_entries=options.entries, seed=options.seed))
        for form in () if options.only_large else ("pickle", "json"):
            folder = Path(scratch) / form
            size = write_dumps(
                folder,
                num_ranks=options.ranks,
                num_entries=options.entries,
                guilty=guilty,
                seed=options.seed,
                form=form,
            )
            ours, theirs = _child("ours", folder), _child("torch", folder)
            row: dict[str, Any] = {"bytes": size, "ours": ours, "torch": theirs}
            if "failed" not in ours and "failed" not in theirs:
                row["analysis_cpu_ratio"] = round(theirs["analysis"]["cpu_s"] / ours["analysis"]["cpu_s"], 1)
                row["end_to_end_cpu_ratio"] = round(theirs["end_to_end"]["cpu_s"] / ours["end_to_end"]["cpu_s"], 1)
                row["end_to_end_with_imports_cpu_ratio"] = round(
                    (theirs["end_to_end"]["cpu_s"] + theirs["imports"]["cpu_s"])
                    / (ours["end_to_end"]["cpu_s"] + ours["imports"]["cpu_s"]),
                    1,
                )
            results.add(form, row)
            sys.stderr.write(f"{form}: {json.dumps(row, indent=1)}\n")
    summary: dict[str, Any] = {"guilty_rank": guilty}
    for key, row in results.latest().items():
        summary[key] = row["ours"] if key == "large" else {k: v for k, v in row.items() if k.endswith("_ratio")}
    results.summarise(summary)


if __name__ == "__main__":
    main()
