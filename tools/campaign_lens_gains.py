"""Holds the gains that `emberward profile` predicts against what a step is shorter by once the cause is removed.

    python tools/campaign_lens_gains.py [--set SET] [--pairs P] [--alone] [PROGRAM ...]

The programs are those of an unseen set that the profiler has met, each with and without its cause. One profiled
run predicts: the gain of the finding with the planted cause and line. Then pairs of plain runs, one with the cause and
one without straight after it, in turns of order, give the real gain: the median of the differences of the mean
``ms/step`` that each program prints last, for a gain is a mean too and what happens every N steps moves no median. Half
the range of the differences, over the real gain, is the pairs' own noise: where that is 1 or more the pairs prove
nothing, and the program counts as such. One whose cause is not found has no prediction and counts as missing.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from campaign_lens import LIMIT_S, MEASURES, copied, named_by, profile, torchrun
from measured import Results, add_options
from unseen import SETS, met

_PRINTED = re.compile(r"([\d.]+) ms/step")


ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29873"}
"""What torchrun gives a program of one process; without its launcher the machine is quieter."""


def launch_of(truth: dict[str, Any]) -> list[str]:
    """The command before the program: torchrun for several ranks, Python alone for one."""
    return torchrun(truth["nproc"]) if truth["nproc"] > 1 else [sys.executable]


def step_ms(folder: Path, truth: dict[str, Any]) -> float | None:
    """The mean that a plain run of the program in `folder` prints; None when it printed nothing in LIMIT_S."""
    with copied(folder) as here:
        command = [*launch_of(truth), "train.py", *truth["args"]]
        try:
            done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            return None
    found = _PRINTED.findall(done.stdout)
    return float(found[-1]) if found else None


def run(folder: Path, name: str, truth: dict[str, Any], pairs: int) -> dict[str, Any]:
    """One program: its prediction and its pairs."""
    before = os.getloadavg()[0]
    _, document = profile(folder / "programs" / name, launch_of(truth), truth["args"])
    best = named_by(truth, document)
    row: dict[str, Any] = {
        "truth": truth["cause"],
        "cause": None if best is None else best["cause"],
        "step_ms": (document.get("profile") or {}).get("step_ms"),
        "predicted_ms": None if best is None else best["gain_ms_per_step"],
    }
    sides = [folder / "programs" / name, folder / "without" / name]
    measured = []
    for index in range(pairs):
        order = sides if index % 2 == 0 else sides[::-1]
        printed = {side: step_ms(side, truth) for side in order}
        measured.append([printed[side] for side in sides])
    differences = [a - b for a, b in measured if a is not None and b is not None]
    real = statistics.median(differences) if differences else None
    noise = error = None
    if real is not None and real > 0:
        noise = (max(differences) - min(differences)) / 2 / real
        error = abs(row["predicted_ms"] - real) / real if best is not None else None
    return {
        **row,
        "pairs_ms": measured,
        "real_ms": None if real is None else round(real, 3),
        "noise": None if noise is None else round(noise, 4),
        "error": None if error is None else round(error, 4),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
    }


def main() -> int:
    """Exit code 2 when no program is due."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs of the set; all when none is named")
    parser.add_argument("--set", default="lens_1", help="a folder of tests/unseen")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="programs of one process alone")
    add_options(parser)
    options = parser.parse_args()
    folder = SETS / options.set
    os.environ |= {"OMP_NUM_THREADS": "1", **ALONE}
    truths = {
        name: truth
        for name, truth in json.loads((folder / "truth.json").read_text()).items()
        if not truth["healthy"]
        and name in met(options.set)
        and (not options.names or name in options.names)
        and (truth["nproc"] == 1 or not options.alone)
    }
    if not truths:
        return 2
    results = Results(
        "lens_gains",
        what=f"gains predicted by `emberward profile` against those of removing the cause, programs of {options.set}",
        measures=MEASURES,
        settings={"set": options.set, "pairs": options.pairs},
        is_fresh=options.fresh,
        folder=options.into,
    )
    for name, truth in sorted(truths.items()):
        if results.has(name):
            continue
        row = run(folder, name, truth, options.pairs)
        results.add(name, row)
        sys.stderr.write(f"{name} {row['cause']} predicted {row['predicted_ms']} real {row['real_ms']} ms\n")
    rows = list(results.latest().values())
    proving = [row for row in rows if row["noise"] is not None and row["noise"] < 1]
    errors = [row["error"] for row in proving if row["error"] is not None]
    results.summarise(
        {
            "programs": len(rows),
            "pairs_prove_nothing": len(rows) - len(proving),
            "predicted": len(errors),
            "median_noise": round(statistics.median(row["noise"] for row in proving), 4) if proving else None,
            "median_error": round(statistics.median(errors), 4) if errors else None,
            "within_15_percent": sum(error <= 0.15 for error in errors),
        }
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
