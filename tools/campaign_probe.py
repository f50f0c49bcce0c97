"""How far a probe moves on another layout, by number type; writes docs/measured/probe.json.

Usage: python tools/campaign_probe.py [--compute bf16 fp16] [--steps 6 60]

Each layout of 1 to 4 ranks trains to each step and saves; each other layout takes the save up, and its first step is
compared with the probe, the next 10 with those of the layout that saved. The bounds of a start
(`rank/_probing.py`) must leave room above what is seen here; the exit code is 1 when a bound is less than 4 times what
was seen. Rows are written as they come, with their commit; what the output already has is not done again.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ.setdefault("EMBERWARD_TEST_PATIENCE", "10")  # read where the ranks of the pool start

from measured import Results, add_options  # noqa: E402
from ranks.pool import RankPool  # type: ignore[import-not-found]  # noqa: E402
from ranks.runs import curve  # type: ignore[import-not-found]  # noqa: E402
from ranks.save_cases import findings_of, train  # type: ignore[import-not-found]  # noqa: E402

from emberward.checkpoint import latest, read_probe, relative_difference  # noqa: E402
from emberward.rank._probing import LOSS_BOUND, NORM_BOUND  # noqa: E402
from emberward.recipe import ComputeType  # noqa: E402

MORE, MARGIN = 10, 4.0
LAYOUTS: dict[str, dict[str, Any]] = {
    "one rank": {"accumulation": 4},
    "tp2 pp2": {"tp": 2, "pp": 2, "accumulation": 4},
    "tp4": {"tp": 4, "accumulation": 2},
    "dp2 tp2 zero1": {"dp": 2, "tp": 2, "zero": 1, "accumulation": 2},
    "dp4 zero3": {"dp": 4, "zero": 3, "accumulation": 1},
    "dp2 pp2 zero2": {"dp": 2, "pp": 2, "zero": 2, "accumulation": 4},
}
FIGURES = ("probe_loss_difference", "probe_norm_difference", "next_losses_difference", "next_norms_difference")


def size_of(layout: dict[str, Any]) -> int:
    """Its number of ranks."""
    return int(layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1))


def moves(pool: RankPool, folder: Path, compute: str, at: int, known: set[str]) -> Iterator[dict[str, Any]]:
    """One row for each ordered pair of layouts that is not known, with a save of step `at`."""

    def go(name: str, path: Path, steps: int) -> None:
        size = size_of(LAYOUTS[name])
        answers = pool.run(train, size, folder=str(path), steps=steps, interval=100, compute=compute, **LAYOUTS[name])
        errors = {answer["error"] for answer in answers} - {None}
        if errors:
            raise RuntimeError(f"{name}: {errors}")

    for a in LAYOUTS:
        todo = [b for b in LAYOUTS if b != a and key_of(a, b, compute, at) not in known]
        if not todo:
            continue
        first, straight = folder / a, folder / f"{a} straight"
        go(a, first, at)
        probe = read_probe(latest(first / "checkpoints") or first)
        shutil.copytree(first, straight)
        go(a, straight, at + MORE)
        expected = curve(straight)[at:]
        if probe is None:  # fp16: a step that was not finite has no probe
            continue
        for b in todo:
            moved = folder / f"{a} to {b}"
            shutil.copytree(first, moved)
            go(b, moved, at + MORE)
            found = curve(moved)[at:]
            both = [(x, y) for x, y in zip(found, expected, strict=True) if None not in (*x, *y)]
            differences = (
                relative_difference(found[0][1], probe.loss),
                relative_difference(found[0][2], probe.grad_norm),
                max(relative_difference(x[1], y[1]) for x, y in both),
                max(relative_difference(x[2], y[2]) for x, y in both),
            )
            yield {
                "from": a,
                "to": b,
                "compute": compute,
                "step": at,
                **dict(zip(FIGURES, differences, strict=True)),
                "steps_compared": len(both),
                "findings": [finding["code"] for finding in findings_of(moved)],
            }
            shutil.rmtree(moved)


def key_of(a: str, b: str, compute: str, at: int) -> str:
    """What a row is known by."""
    return f"{a} to {b}, {compute}, step {at}"


def summary(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The largest figures of each number type, beside its bounds."""
    worst: dict[str, dict[str, Any]] = {}
    for compute in sorted({row["compute"] for row in rows}):
        own = [row for row in rows if row["compute"] == compute]
        worst[compute] = {
            "num_pairs": len(own),
            **{key: max(row[key] for row in own) for key in FIGURES},
            "loss_bound": LOSS_BOUND[ComputeType(compute)],
            "norm_bound": NORM_BOUND[ComputeType(compute)],
        }
    return worst


def main() -> int:
    """Exit code 1 when a bound is too near to what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compute", nargs="+", default=["fp32", "bf16", "fp16"])
    parser.add_argument("--steps", nargs="+", type=int, default=[6, 60])
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "probe",
        what=f"a save resumed on another layout: its probe and the next {MORE} steps, against the saver's",
        measures=["src/emberward/checkpoint", "src/emberward/engine", "src/emberward/rank"],
        is_fresh=options.fresh,
        folder=options.into,
    )
    known = set(results.latest())
    with tempfile.TemporaryDirectory() as name:
        pool = RankPool(4, Path(name))
        for compute in options.compute:
            for at in options.steps:
                for row in moves(pool, Path(name) / f"{compute} {at}", compute, at, known):
                    results.add(key_of(row["from"], row["to"], row["compute"], row["step"]), row)
        pool.close()
    worst = summary(results.attempts)
    results.summarise(worst)
    is_roomy = all(
        each["loss_bound"] >= MARGIN * each[FIGURES[0]] and each["norm_bound"] >= MARGIN * each[FIGURES[1]]
        for each in worst.values()
    )
    return 0 if is_roomy else 1


if __name__ == "__main__":
    sys.exit(main())
