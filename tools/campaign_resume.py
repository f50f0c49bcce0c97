"""Kills runs at random and moves saves through a grid of layouts; writes docs/measured/resume.json.

Usage: python tools/campaign_resume.py [--seeds 10] [--ranks 8] [--only kills|grid]

Kills: a run of the real ranks under torchrun (2 x 2 x 2 with 8 ranks) that saves beside the training; per seed the next
of its ranks, in a random order, is killed by SIGKILL at a random step, and the run is started again. One run takes all
the kills. After each its curve (loss, gradient norm, samples) must be that of the run that nobody interrupted, bit for
bit; at the end its last save too: every tensor, each rank's random state, the position in the data.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
os.environ.setdefault("EMBERWARD_TEST_PATIENCE", "10")  # read where the ranks of the pool start

from measured import Results, add_options  # noqa: E402
from ranks.pool import RankPool  # type: ignore[import-not-found]  # noqa: E402
from ranks.runs import (  # type: ignore[import-not-found]  # noqa: E402
    curve,
    logs,
    make_run,
    metrics,
    start_torchrun,
    write_text,
)
from ranks.save_cases import findings_of, train  # type: ignore[import-not-found]  # noqa: E402

from emberward.checkpoint import latest, read_manifest, read_probe, relative_difference  # noqa: E402

KILL_STEPS, MOST_STEPS, INTERVAL, FIRST, MORE = 48, 8, 3, 4, 20
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


def kill_one(path: Path, num_ranks: int, victim: int, rng: random.Random) -> dict[str, Any]:
    """Goes on with the run, kills `victim` some random steps later, and says where and what the newest save then was.

    The run itself must be what was straight so far: its curve is compared when it has ended.
    """
    begins = saved_step(path) or 0
    at = min(begins + rng.randrange(1, MOST_STEPS + 1), KILL_STEPS - 2)
    process = start_torchrun(path, num_ranks)
    wait_for(lambda: (last_step(path) >= at and is_of(process, path, victim)) or process.poll() is not None, 600)
    time.sleep(rng.random() * 0.3)  # within the step, or within the write of a save
    if process.poll() is None:
        os.kill(pid_of(path, victim), signal.SIGKILL)
    code = process.wait(timeout=600)
    done = last_step(path)
    return {
        "victim": victim,
        "from_step": begins,
        "done_steps": done,
        "saved_step": saved_step(path),
        "exit_code": code,
    }


def pid_of(path: Path, rank: int) -> int:
    """The process of a rank, as it says itself."""
    return int(json.loads((path / "ranks" / f"rank{rank:05d}.json").read_text())["pid"])


def is_of(process: "subprocess.Popen[bytes]", path: Path, rank: int) -> bool:
    """Whether the rank's file is of this start: an earlier one named another process, which is gone."""
    try:
        return any(child.pid == pid_of(path, rank) for child in psutil.Process(process.pid).children(recursive=True))
    except (psutil.Error, OSError, ValueError):
        return False


def last_step(path: Path) -> int:
    """The last step that the metrics hold."""
    return max((int(line["step"]) for line in metrics(path)), default=0)


def saved_step(path: Path) -> int | None:
    """The step of the newest whole save."""
    newest = latest(path / "checkpoints")
    return None if newest is None else int(newest.name.removeprefix("step-"))


def state(path: Path) -> dict[str, Any]:
    """All that the last save holds: the digest of every tensor, each rank's random state too, and the counters."""
    newest = latest(path / "checkpoints")
    assert newest is not None, "a run that is done has a save"
    manifest = read_manifest(newest)
    counters = {key: manifest.meta[key] for key in ("consumed_samples", "consumed_tokens", "engine", "scheduler")}
    return {"step": manifest.step, **counters, **{name: entry.digest for name, entry in manifest.tensors.items()}}


def kills(num_ranks: int, num_seeds: int, folder: Path, keep: Callable[[str, dict[str, Any]], None]) -> None:
    """Gives `keep` what came of each seed, and of the end of the one run that takes all the kills."""
    text = write_text(folder / "data" / "text")
    options = [
        f"steps={KILL_STEPS}", f"save.interval={INTERVAL}", "evaluation.interval=null", "sample_tokens=0",
        "timeout_s=900",
        *([f"layout.{axis}=2" for axis in ("dp", "tp", "pp")] if num_ranks == 8
          else [f"layout.dp={num_ranks}", "layout.tp=1", "layout.pp=1"]),
    ]  # fmt: skip
    straight = make_run(folder / "straight", num_ranks, *options, text=text)
    if start_torchrun(straight, num_ranks).wait(timeout=1200) != 0:
        raise RuntimeError(logs(straight))
    expected = curve(straight)
    path = make_run(folder / "killed", num_ranks, *options, text=text)
    victims = random.Random("victims").sample(range(num_ranks), num_ranks)
    for seed in range(num_seeds):
        row = {"seed": seed, **kill_one(path, num_ranks, victims[seed % num_ranks], random.Random(seed))}
        row["lost_steps"] = row["done_steps"] - (row["saved_step"] or 0)
        row["is_bitwise"] = curve(path) == expected[: row["done_steps"]]
        keep(f"kill {seed}", row)
        sys.stderr.write(f"seed {seed}: {row}\n")
    code = start_torchrun(path, num_ranks).wait(timeout=1200)
    if code != 0:
        sys.stderr.write(logs(path) + "\n")
    end = {
        "exit_code": code,
        "is_curve_bitwise": curve(path) == expected,
        "is_last_save_equal": state(path) == state(straight),
        "num_random_states": sum(name.startswith("rng/") for name in state(straight)),
        "findings": [finding["code"] for finding in findings_of(path)],
    }
    keep("end of kills", end)


def is_good(killed: list[dict[str, Any]], end: dict[str, Any] | None) -> bool:
    """Whether every killed run followed the straight one, to the last bit of the last save."""
    if end is None:
        return False
    ended_well = end["exit_code"] == 0 and end["is_curve_bitwise"] and end["is_last_save_equal"]
    return bool(ended_well and all(row["is_bitwise"] for row in killed))


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
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "resume",
        what="runs that are killed and resumed, and resumed on another layout, against runs that are not",
        measures=["src/emberward/checkpoint", "src/emberward/engine", "src/emberward/rank"],
        settings={"seeds": options.seeds, "ranks": options.ranks},
        is_fresh=options.fresh,
        folder=options.into,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for compute in options.compute if options.only != "kills" else ():
            for row in grid(folder, compute):
                results.add(f"{compute}: {row['from']} to {row['to']}", row)
        if options.only != "grid":
            kills(options.ranks, options.seeds, folder, results.add)
    rows = results.latest()
    moves = [row for row in rows.values() if "probe_loss_difference" in row]
    keys = [key for key in (moves[0] if moves else ()) if key.endswith(("difference", "steps"))]
    killed = [row for key, row in rows.items() if key.startswith("kill ")]
    results.summarise(
        {
            "worst_of_moves": {
                compute: {key: max(row[key] for row in moves if row["compute"] == compute) for key in keys}
                for compute in sorted({row["compute"] for row in moves})
            },
            "kills": len(killed),
            "bitwise": sum(row["is_bitwise"] for row in killed),
            # The newest save may still be in flight when the rank dies: then the one before it is taken.
            "most_lost_steps": max((row["lost_steps"] for row in killed), default=None),
            "end_of_kills": rows.get("end of kills"),
        }
    )
    return 0 if not killed or is_good(killed, rows.get("end of kills")) else 1


if __name__ == "__main__":
    sys.exit(main())
