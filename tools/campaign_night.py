"""A night of one small run with real faults, and what `emberward report` says of it: goodput, hours lost by cause.

    python tools/campaign_night.py [--faults 20] [--seconds 540]

One `emberward train --restarts N` of two ranks; each attempt that has saved something new is broken in turn by SIGKILL,
SIGSEGV or SIGSTOP of a rank that the seed draws. At the end the run is stopped and its report is held against what was
done: as many failures as faults, and seconds that add up. A night that is cut says how many faults it had.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from measured import Results, add_options

from emberward.report import RunFolder, read_json, read_lines

SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP)
RECIPE = ("steps=1000000", "save.interval=5", "layout.dp=2", "layout.tp=1", "layout.pp=1")
POLL_S = 0.2


def night(num_faults: int, *, seed: int, until_s: float, place: Path) -> dict[str, Any]:
    """What was done and what the report says. Blocks, until all faults are made or the time is up."""
    rng, made = random.Random(seed), [0, 0, 0]
    words_of = [
        "to",
        "be",
        "or",
        "not",
        "that",
        "is",
        "the",
        "question",
        "whether",
        "tis",
        "nobler",
        "in",
        "mind",
        "suffer",
    ]
    (place / "my.txt").write_text("\n\n".join(" ".join(rng.choices(words_of, k=60)) for _ in range(1000)))
    words = ["train", "bloom_tiny", "--ranks", "2", "--restarts", str(num_faults + 5), "--no-check", *RECIPE]
    words += ["data.train=my.txt", "--act-after", "5"]
    ours = (sys.executable, "-m", "emberward")
    with (place / "said").open("wb") as said:
        run = subprocess.Popen([*ours, *words], cwd=place, stdout=said, stderr=said)
        broken: set[int] = set()
        files: RunFolder | None = None
        while sum(made) < num_faults and time.monotonic() < until_s and run.poll() is None:
            time.sleep(POLL_S)
            folder = next(iter(place.glob("runs/bloom_tiny/*/attempts.jsonl")), None)
            if folder is None:
                continue
            files = RunFolder(path=folder.parent)
            start = [line for line in read_lines(files.attempts) if line.get("event") == "start"][-1]
            saves = [int(path.name[5:]) for path in files.checkpoints.glob("step-*") if path.name[5:].isdigit()]
            if start["attempt"] in broken or max(saves, default=0) <= (start.get("saved_step") or 0):
                continue
            said_of_rank = read_json(files.rank_file(rng.randrange(2))) or {}
            kind = sum(made) % len(SIGNALS)
            try:
                os.kill(said_of_rank["pid"], SIGNALS[kind])
            except (KeyError, ProcessLookupError):
                continue
            broken.add(start["attempt"])
            made[kind] += 1
        if files is None:
            raise SystemExit((place / "said").read_text())
        # The last fault must have ended its attempt before the run is asked to stop.
        while run.poll() is None and time.monotonic() < until_s + 30:
            starts = [line["attempt"] for line in read_lines(files.attempts) if line.get("event") == "start"]
            if starts[-1] not in broken:
                break
            time.sleep(POLL_S)
        run.send_signal(signal.SIGTERM)
        try:
            code = run.wait(60)
        except subprocess.TimeoutExpired:
            run.kill()
            code = run.wait()
    done = subprocess.run(
        [*ours, "report", str(files.path), "--json"],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    report = json.loads(done.stdout)
    ends = [line for line in read_lines(files.attempts) if line.get("event") == "end"]
    good = report.get("goodput") or {}
    total = good.get("kept_h", 0.0) + good.get("other_h", 0.0) + sum(good.get("lost_h_by_cause", {}).values())
    return {
        "faults": sum(made),
        "asked": num_faults,
        "by_signal": {each.name: count for each, count in zip(SIGNALS, made, strict=True)},
        "exit_code": code,
        "failed_ends": sum(end.get("outcome") == "failed" for end in ends),
        "causes": dict(Counter(str(end.get("cause")) for end in ends if end.get("outcome") == "failed")),
        "goodput": good,
        "hours_lost_by_cause": report.get("hours_lost_by_cause"),
        "seconds_off": round(abs(total - good.get("elapsed_h", 0.0)) * 3600, 2),
    }


def main() -> int:
    """Exit code 1 when the report has another number of failures than were made, or its parts do not add up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--seed", type=int, default=1)
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "night",
        what="goodput and hours lost by cause of a small run of two ranks with real faults",
        measures=[
            "src/emberward/health/_goodput.py",
            "src/emberward/report/_diary.py",
            "src/emberward/supervise/_launch.py",
        ],
        settings={"seed": options.seed},
        is_fresh=options.fresh,
        folder=options.into,
    )
    with tempfile.TemporaryDirectory(prefix="night-") as place:
        until_s = time.monotonic() + options.seconds
        row = night(options.faults, seed=options.seed, until_s=until_s, place=Path(place))
    results.add(f"night {options.seed}", row)
    results.summarise(row)
    return 0 if row["failed_ends"] == row["faults"] and row["seconds_off"] < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
