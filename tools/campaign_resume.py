"""Kills runs at random and moves saves through a grid of layouts; writes docs/measured/resume.json.

Usage: python tools/campaign_resume.py [--seeds 10] [--ranks 8] [--only kills|grid] [--output docs/measured/resume.json]

Kills: a run of the real ranks under torchrun (2 x 2 x 2 with 8 ranks) that saves beside the training; per seed a rank
drawn at random is killed by SIGKILL at a random step, and the run is started again until it is done. Its curve (loss,
gradient norm, samples) must be that of the run that nobody interrupted, bit for bit.
Grid: every ordered pair of layouts. A save made under A is taken up under A and under B for 20 more steps; digests are
compared on each load, the probe by its bound, and the two curves with each other. B's last save goes back to A.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ.setdefault("EMBERWARD_TEST_PATIENCE", "10")  # read where the ranks of the pool start

from ranks.pool import RankPool  # type: ignore[import-not-found]  # noqa: E402
from ranks.runs import (  # type: ignore[import-not-found]  # noqa: E402
    curve,
    logs,
    make_run,
    metrics,
    start,
    write_text,
)
from ranks.save_cases import findings_of, train  # type: ignore[import-not-found]  # noqa: E402

from emberward.checkpoint import latest, read_probe, relative_difference  # noqa: E402

STEPS, INTERVAL, FIRST, MORE = 14, 3, 4, 20
LAYOUTS: dict[str, dict[str, Any]] = {
    "dp2 tp2 pp2 zero1": {"dp": 2, "tp": 2, "pp": 2, "zero": 1, "accumulation": 4},
    "tp4": {"tp": 4, "accumulation": 2},
    "dp4 pp2 zero1": {"dp": 4, "pp": 2, "zero": 1, "accumulation": 4},
    "one rank": {"accumulation": 4},
    "dp4 zero3": {"dp": 4, "zero": 3, "accumulation": 2},
}


def wait_for(condition: Any, limit_s: float) -> None:
    """Returns when the condition holds or the limit is over."""
    ends_s = time.monotonic() + limit_s
    while not condition() and time.monotonic() < ends_s:
        time.sleep(0.02)


def kill_one(path: Path, num_ranks: int, rng: random.Random) -> dict[str, Any]:
    """Starts the run, kills a rank at a random step, and says at which step and what the newest save then was."""
    at, victim = rng.randrange(1, STEPS), rng.randrange(num_ranks)
    process = start(path, num_ranks)
    wait_for(lambda: len(metrics(path)) >= at or process.poll() is not None, 300)
    time.sleep(rng.random() * 0.3)  # within the step, or within the write of a save
    pid = json.loads((path / "ranks" / f"rank{victim:05d}.json").read_text())["pid"]
    if process.poll() is None:
        os.kill(pid, signal.SIGKILL)
    code = process.wait(timeout=300)
    newest = latest(path / "checkpoints")
    saved = None if newest is None else int(newest.name.removeprefix("step-"))
    done = len(metrics(path))
    return {"victim": victim, "asked_step": at, "done_steps": done, "saved_step": saved, "exit_code": code}


def kills(num_ranks: int, num_seeds: int, folder: Path) -> dict[str, Any]:
    """What came of each seed."""
    text = write_text(folder / "data" / "text")
    options = [
        f"steps={STEPS}", f"save.interval={INTERVAL}", "evaluation.interval=null", "sample_tokens=0", "timeout_s=900",
        *([f"layout.{axis}=2" for axis in ("dp", "tp", "pp")] if num_ranks == 8 else [f"layout.dp={num_ranks}"]),
    ]  # fmt: skip
    straight = make_run(folder / "straight", num_ranks, *options, text=text)
    if start(straight, num_ranks).wait(timeout=600) != 0:
        raise RuntimeError(logs(straight))
    expected, rows = curve(straight), []
    for seed in range(num_seeds):
        rng = random.Random(seed)
        path = make_run(folder / f"seed{seed}", num_ranks, *options, text=text)
        row: dict[str, Any] = {"seed": seed, **kill_one(path, num_ranks, rng)}
        again = start(path, num_ranks).wait(timeout=600)
        row["lost_steps"] = row["done_steps"] - (row["saved_step"] or 0)
        row["exit_code_of_resume"], row["is_bitwise"] = again, again == 0 and curve(path) == expected
        if again != 0:
            sys.stderr.write(logs(path) + "\n")
        row["findings"] = [finding["code"] for finding in findings_of(path)]
        rows.append(row)
        sys.stderr.write(f"seed {seed}: {row}\n")
        shutil.rmtree(path)
    return {
        "ranks": num_ranks,
        "steps": STEPS,
        "save_interval": INTERVAL,
        "seeds": rows,
        "num_bitwise": sum(row["is_bitwise"] for row in rows),
        # The newest save may still be in flight when the rank dies: then the one before it is taken.
        "most_lost_steps": max(row["lost_steps"] for row in rows),
    }


def worst(a: list[tuple[int, float, float, int]], b: list[tuple[int, float, float, int]]) -> tuple[float, float]:
    """Greatest relative differences of loss and of gradient norm between two curves of the same steps."""
    assert [(row[0], row[3]) for row in a] == [(row[0], row[3]) for row in b], "steps and samples"
    return (
        max(relative_difference(x[1], y[1]) for x, y in zip(a, b, strict=True)),
        max(relative_difference(x[2], y[2]) for x, y in zip(a, b, strict=True)),
    )


def size_of(layout: dict[str, Any]) -> int:
    """Its number of ranks."""
    return int(layout.get("dp", 1) * layout.get("tp", 1) * layout.get("pp", 1))


def grid(folder: Path, compute: str) -> list[dict[str, Any]]:
    """One row for each ordered pair of layouts."""
    pool, rows = RankPool(8, folder), []

    def go(name: str, path: Path, steps: int) -> None:
        answers = pool.run(
            train, size_of(LAYOUTS[name]), folder=str(path), steps=steps, interval=100, compute=compute, **LAYOUTS[name]
        )
        errors = {answer["error"] for answer in answers} - {None}
        if errors:
            raise RuntimeError(f"{name}: {errors}")

    for a in LAYOUTS:
        first = folder / f"{compute} {a}"
        go(a, first, FIRST)
        straight = folder / f"{compute} {a} straight"
        shutil.copytree(first, straight)
        go(a, straight, FIRST + MORE)
        probe = read_probe(latest(first / "checkpoints") or first)
        assert probe is not None, "the last save of a run has a probe"
        for b in LAYOUTS:
            if a == b:
                continue
            moved = folder / f"{compute} {a} to {b}"
            shutil.copytree(first, moved)
            go(b, moved, FIRST + MORE)
            loss, norm = worst(curve(moved)[FIRST:], curve(straight)[FIRST:])
            shutil.copytree(moved, folder / "back")
            go(a, folder / "back", FIRST + MORE + 1)
            found = curve(moved)[FIRST]
            rows.append(
                {
                    "from": a,
                    "to": b,
                    "compute": compute,
                    "probe_loss_difference": relative_difference(found[1], probe.loss),
                    "probe_norm_difference": relative_difference(found[2], probe.grad_norm),
                    "worst_loss_difference_of_20_steps": loss,
                    "worst_norm_difference_of_20_steps": norm,
                    "findings": [finding["code"] for finding in findings_of(folder / "back")],
                }
            )
            sys.stderr.write(f"{rows[-1]}\n")
            for path in (moved, folder / "back"):
                shutil.rmtree(path)
    pool.close()
    return rows


def main() -> int:
    """Exit code 1 when a killed run did not follow the straight one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--only", choices=("kills", "grid"))
    parser.add_argument("--compute", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "measured" / "resume.json")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known = json.loads(options.output.read_text()) if options.output.exists() else {}
    result: dict[str, Any] = {**known, "what": "runs that are killed and moved, against runs that are not"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only != "kills":
            rows = [row for compute in options.compute for row in grid(folder, compute)]
            result["grid"] = {
                "commit": commit.strip(),
                "num_pairs": len(rows),
                "steps_after_the_move": MORE,
                "worst": {
                    compute: {
                        key: max(row[key] for row in rows if row["compute"] == compute)
                        for key in rows[0]
                        if key.endswith(("difference", "steps"))
                    }
                    for compute in options.compute
                },
                "pairs": rows,
            }
        if options.only != "grid":
            result["kills"] = {"commit": commit.strip(), **kills(options.ranks, options.seeds, folder)}
    options.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps({key: result[key] for key in result if key != "what"}, indent=2) + "\n")
    return 0 if "kills" not in result or result["kills"]["num_bitwise"] == len(result["kills"]["seeds"]) else 1


if __name__ == "__main__":
    sys.exit(main())
