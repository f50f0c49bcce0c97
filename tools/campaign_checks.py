"""Checks the recipes of real sizes and writes docs/measured/checks.json: seconds, memory, verdict, prediction.

Usage: python tools/campaign_checks.py [RECIPE ...]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

from measured import Results, add_options

HARDWARE = {
    "bloom_176b": "a100",
    "llama_405b": "h100",
    "roberta_10b": "v100-efa",
    "bloom_tiny": None,
    "swin_tiny": None,
}
TIME_LIMIT_S = 900.0


def check(recipe: str, hardware: str | None) -> dict[str, object]:
    """What `emberward check` says of a recipe, and what it took. `largest_process_mb`: of it and its children, and of
    those of the recipes before it. `processor_seconds`: of all its processes, which other work disturbs less."""
    words = [sys.executable, "-m", "emberward", "check", recipe, "--json"]
    words += [] if hardware is None else ["--hardware", hardware]
    began, used, load = time.monotonic(), _processor_s(), os.getloadavg()[0]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    found = json.loads(done.stdout)
    roles = found["preflight"]["roles"]
    prediction = found["preflight"]["prediction"]
    return {
        "exit_code": done.returncode,
        "proved": found["proved"],
        "seconds": round(time.monotonic() - began, 1),
        "proof_seconds": found["seconds"],
        "processor_seconds": round(_processor_s() - used, 1),
        "load": round(load, 1),
        "largest_process_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        "ranks": found["num_ranks"],
        "roles": found["num_roles"],
        "events": found["num_events"],
        "findings": [each["code"] for each in found["findings"]],
        "hardware": hardware,
        "predicted_step_s": None if prediction is None else round(prediction["step_s"], 2),
        "fullest_rank_gib": round(max(role["memory"]["total_bytes"] for role in roles) / 2**30, 1),
    }


def _processor_s() -> float:
    """What the children that have ended used of the processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Exit code 1 when a recipe is not proved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=list(HARDWARE))
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "checks",
        what="recipes of real sizes under emberward check: seconds, memory, verdict, prediction",
        measures=["src/emberward/rank", "src/emberward/match", "src/emberward/plan", "src/emberward/perf"],
        settings={"recipes": options.recipes},
        is_fresh=options.fresh,
        folder=options.into,
    )
    rows = {}
    for recipe in options.recipes:
        rows[recipe] = check(recipe, HARDWARE.get(recipe))
        results.add(recipe, rows[recipe])
    results.summarise({"proved": sorted(name for name, row in rows.items() if row["proved"]), "of": len(rows)})
    return 0 if all(row["proved"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
