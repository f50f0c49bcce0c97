"""Holds the gains that `emberward profile` predicts against what a step is shorter by once the cause is removed.

    python tools/campaign_lens_gains.py [--set SET] [--pairs P] [--alone] [PROGRAM ...]

The programs are those of an unseen set that the profiler has met, each with and without its cause. One run whose
steps are sampled from `FIRST_SAMPLED` to the last predicts, for the pairs count them all: the gains of the findings
with the planted cause and an accepted line, for what is removed may stand at several. Then plain runs of both sides in
turns (`in_turns`) give the real gain: the difference of the mean steps, for a gain is a mean too and what happens every
N steps moves no median; over several pairs the median. Half the range of the differences, over the real gain, is the
pairs' own noise: where that is 1 or more the pairs prove nothing, and the program counts as such. One whose cause is
not found has no prediction and counts as missing.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from campaign_lens import LIMIT_S, MEASURES, copied, has_line, named_by, profile, torchrun
from in_turns import steps_in_turns
from measured import Results, add_options
from unseen import SETS, met

TOLD_STEPS = str(Path(__file__).with_name("told_steps.py"))
FIRST_SAMPLED = 10
"""Steps before those that `profile` samples: its warm-up, and those that it observes operation by operation."""
PORTS = (29873, 29874)
"""Of the two sides."""
ALONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{PORTS[0]}"}
"""What torchrun gives a program of one process; without its launcher the machine is quieter."""


def launch_of(truth: dict[str, Any]) -> list[str]:
    """The command before the program: torchrun for several ranks, Python alone for one."""
    return torchrun(truth["nproc"]) if truth["nproc"] > 1 else [sys.executable]


def pair_of(sides: Sequence[Path], truth: dict[str, Any]) -> list[float | None]:
    """The mean of an optimizer's step of each side in turns, ms, as the profile counts; None for one that failed."""

    def command(port: int) -> Callable[[Path], list[str]]:
        told = [*launch_of(truth), TOLD_STEPS]
        return lambda file: ["env", f"MASTER_PORT={port}", *told, str(file), "train.py", *truth["args"]]

    with ExitStack() as stack:
        folders = [stack.enter_context(copied(side)) for side in sides]
        given = [(folder, command(port)) for folder, port in zip(folders, PORTS, strict=True)]
        return list(steps_in_turns(given, limit_s=2 * LIMIT_S))


def difference(pairs: Sequence[Sequence[float | None]]) -> tuple[float | None, float | None]:
    """The median difference of the pairs, and half the range over it; None where it is none that is known."""
    differences = [a - b for a, b in pairs if a is not None and b is not None]
    real = statistics.median(differences) if differences else 0.0
    return (real, (max(differences) - min(differences)) / 2 / real) if real > 0 else (None, None)


def run(folder: Path, name: str, truth: dict[str, Any], pairs: int) -> dict[str, Any]:
    """One program: its prediction and its pairs."""
    before = os.getloadavg()[0]
    sampled = str(max(truth["steps"] - FIRST_SAMPLED, FIRST_SAMPLED))
    _, document = profile(folder / "programs" / name, launch_of(truth), truth["args"], "--steps", sampled)
    best = named_by(truth, document)
    alike = [] if best is None else [each for each in document["findings"] if each["cause"] == best["cause"]]
    named = [each for each in alike if each is best or has_line(truth, each)]
    sides = [folder / "programs" / name, folder / "without" / name]
    measured = []
    for index in range(pairs):
        turn = 1 if index % 2 == 0 else -1
        measured.append(pair_of(sides[::turn], truth)[::turn])
    predicted = sum(each["gain_ms_per_step"] for each in named)
    real, noise = difference(measured)
    return {
        "truth": truth["cause"],
        "cause": None if best is None else best["cause"],
        "step_ms": (document.get("profile") or {}).get("step_ms"),
        "predicted_ms": None if best is None else round(predicted, 3),
        "pairs_ms": [[None if each is None else round(each, 2) for each in pair] for pair in measured],
        "real_ms": None if real is None else round(real, 3),
        "noise": None if noise is None else round(noise, 4),
        "error": None if best is None or real is None else round(abs(predicted - real) / real, 4),
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
