"""Writes docs/measured/predictions.json: every published run beside its prediction, with the commit that predicted it.

python benchmarks/predictions.py [OUT]
"""

import json
import subprocess
import sys
from pathlib import Path

from emberward.report import Comparison, compare, published_runs, ratio_of_schedules

ROOT = Path(__file__).parents[1]


def row(found: Comparison) -> dict[str, object]:
    """One row of the file."""
    run, plan = found.run, found.run.plan
    return {
        "name": run.name,
        "cluster": run.cluster,
        "ranks": plan.num_ranks,
        "tp": plan.tp,
        "pp": plan.pp,
        "dp": plan.dp,
        "micro_batch": plan.micro_batch,
        "micro_batches": plan.num_mb,
        "measured_s": round(found.measured_s, 4),
        "predicted_s": round(found.prediction.step_s, 4),
        "error": round(found.error, 4),
        "predicted_mfu": round(found.prediction.mfu, 4),
        "parts_s": {name: round(seconds, 4) for name, seconds in found.prediction.parts_s.items()},
        "source": run.source,
        "assumed": run.assumed,
    }


def main() -> None:
    """Predicts all rows and writes them."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "measured" / "predictions.json"
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {name: compare(run) for name, run in published_runs().items()}
    document = {
        "commit": commit.stdout.strip(),
        "ratio_405b": {"measured": 1.28, "predicted": round(ratio_of_schedules(found), 4)},
        "rows": [row(each) for each in found.values()],
    }
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
