"""Proves interleaved pipelines of 64 to 65,536 ranks, finds one fault planted in one rank, writes what it cost.

Usage: python benchmarks/match_scale.py
Each size runs in a process of its own, so that its peak memory is its own. Writes docs/measured/match_scale.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from emberward.match import check_roles
from emberward.testing import PlantedFault, mesh_roles, plant

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from measured import Results, add_options

SIZES = ((4, 4, 4), (8, 8, 4), (8, 32, 4), (16, 32, 8), (16, 128, 8), (16, 256, 8), (16, 512, 8))
"""(pp, dp, tp): 64 to 65,536 ranks."""
NUM_MB = 64


def measure(pp: int, dp: int, tp: int) -> dict[str, object]:
    """Seconds to prove the step and to name each planted fault, and the peak memory of this process."""
    began = time.monotonic()
    roles = mesh_roles(pp=pp, dp=dp, tp=tp, num_mb=NUM_MB)
    made_s = time.monotonic() - began
    began = time.monotonic()
    proof = check_roles(roles)
    row: dict[str, object] = {
        "ranks": roles.mesh.size,
        "mesh": f"PP{pp} x TP{tp} x DP{dp}",
        "events_of_all_ranks": sum(len(roles.programs[owner]) for owner in roles.representative_of),
        "make_role_traces_s": round(made_s, 2),
        "proof_s": round(time.monotonic() - began, 2),
        "proof_outcome": proof.outcome.value,
        "events_simulated": proof.num_events,
    }
    rank = roles.mesh.size * 5 // 7 + 4
    for fault in PlantedFault:
        broken = plant(roles, rank, fault, at=37)
        began = time.monotonic()
        verdict = check_roles(broken)
        finding = verdict.findings[0]
        row[fault.value] = {
            "rank": rank,
            "s": round(time.monotonic() - began, 2),
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
        measures=["src/emberward/match"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    for size in SIZES:
        command = [sys.executable, __file__, *map(str, size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        row = json.loads(done.stdout)
        results.add(" x ".join(map(str, size)), row)
        sys.stderr.write(f"{row['ranks']} ranks: proof {row['proof_s']} s\n")
    results.summarise({"largest": max(row["ranks"] for row in results.latest().values())})
    return 0


if __name__ == "__main__":
    sys.exit(main())
