"""Proves interleaved pipelines of 64 to 65,536 ranks, finds one fault planted in one rank, writes what it cost.

Usage: python benchmarks/match_scale.py
Each size runs in a process of its own, so that its peak memory is its own. Writes docs/measured/match_scale.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from emberward.events import Trace, read_trace, write_trace
from emberward.match import RoleTrace, check_roles
from emberward.testing import PlantedFault, mesh_roles, plant

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

SIZES = ((4, 4, 4), (8, 8, 4), (8, 32, 4), (16, 32, 8), (16, 128, 8), (16, 256, 8), (16, 512, 8))
"""(pp, dp, tp): 64 to 65,536 ranks."""
NUM_MB = 64


def through_file(roles: RoleTrace, path: Path) -> RoleTrace:
    """The roles as they come back from a trace file that holds the program of each role."""
    trace = Trace(
        world_size=roles.mesh.size,
        events=roles.programs,
        observer=roles.observer,
        credits=roles.credits,
        assumptions=roles.assumptions,
    )
    write_trace(trace, path)
    return replace(roles, programs=read_trace(path).events)


def measure(pp: int, dp: int, tp: int) -> dict[str, object]:
    """Seconds to prove the step and to name each planted fault, by the clock and of this process, and its peak memory.

    Of a fault the seconds run from the broken roles in memory, through a file and back, to the verdict.
    """
    began = time.monotonic()
    roles = mesh_roles(pp=pp, dp=dp, tp=tp, num_mb=NUM_MB)
    made_s = time.monotonic() - began
    began, began_cpu = time.monotonic(), time.process_time()
    proof = check_roles(roles)
    calls = {owner: len(program) for owner, program in roles.programs.items()}
    row: dict[str, object] = {
        "ranks": roles.mesh.size,
        "mesh": f"PP{pp} x TP{tp} x DP{dp}",
        "events_of_all_ranks": sum(calls[owner] for owner in roles.representative_of),
        "events_of_a_rank": max(calls.values()),
        "make_role_traces_s": round(made_s, 2),
        "proof_s": round(time.monotonic() - began, 2),
        "proof_cpu_s": round(time.process_time() - began_cpu, 2),
        "proof_outcome": proof.outcome.value,
        "events_simulated": proof.num_events,
    }
    rank = roles.mesh.size * 5 // 7 + 4
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "roles.trace")
        for fault in PlantedFault:
            broken = plant(roles, rank, fault, at=37)
            began, began_cpu = time.monotonic(), time.process_time()
            verdict = check_roles(through_file(broken, path))
            finding = verdict.findings[0]
            row[fault.value] = {
                "rank": rank,
                "s": round(time.monotonic() - began, 2),
                "cpu_s": round(time.process_time() - began_cpu, 2),
                "file_mb": round(path.stat().st_size / 1e6, 1),
                "events_simulated": verdict.num_events,
                "code": finding.code,
                "culprit_ranks": list(finding.culprit_ranks),
                "witness_ranks": [line.rank for line in verdict.witness],
                "cure": None if verdict.cure is None else verdict.cure.text,
            }
    row["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return row


def main() -> int:
    """Runs every size, or one when its three numbers are given."""
    if len(sys.argv) == 4:
        pp, dp, tp = map(int, sys.argv[1:])
        sys.stdout.write(json.dumps(measure(pp, dp, tp)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "match_scale",
        what="match.check_roles on interleaved 1F1B, 2 stages a rank, 64 micro-batches",
        measures=["src/emberward/match", "src/emberward/events"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for size in SIZES:
        command = [sys.executable, __file__, *map(str, size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=1800)
        row = json.loads(done.stdout)
        results.add(" x ".join(map(str, size)), row)
        sys.stderr.write(f"{row['ranks']} ranks: proof {row['proof_s']} s\n")
    results.summarise({"largest": max(row["ranks"] for row in results.latest().values())})
    return 0


if __name__ == "__main__":
    sys.exit(main())
