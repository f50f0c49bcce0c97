"""Kills every verb at random moments and records what is left: processes, temporary folders and sockets, rings.

    .venv/bin/python tools/campaign_kills.py [--seed 1] [--kills 300] [--real 30] [--beside 3]

Kill number n is made of `--seed` and n alone: verb, signal, moment. A round goes on where it ended. The last `--real`
kills run real torch; the others a stand-in that starts processes and hangs, so that the kill finds a whole tree.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from measured import Results, add_options

from emberward.testing import MOST, SIGNALS, Moment, kill_verb, verbs

MAX_DELAY_S = 1.5
MAX_TRIES = 5
"""A verb that ended before the kill is started again, with another moment."""


def kill(seed: int, number: int, *, is_torch_real: bool) -> dict[str, Any]:
    """Kill `number` of the round, as a row of the results."""
    rng = random.Random(f"{seed} {number}")
    verb = verbs()[number % len(verbs())]
    sent = SIGNALS[number // len(verbs()) % len(SIGNALS)]
    row: dict[str, Any] = {}
    for tried in range(1, MAX_TRIES + 1):
        moment = Moment(num_processes=rng.randint(0, MOST[verb]), delay_s=round(rng.uniform(0.0, MAX_DELAY_S), 3))
        place = Path(tempfile.mkdtemp(prefix="kills-"))
        try:
            found = kill_verb(
                verb,
                place / "here",
                environment=os.environ,
                moment=moment,
                number=sent,
                is_torch_real=is_torch_real,
            )
        finally:
            shutil.rmtree(place, ignore_errors=True)
        row = {
            "verb": verb,
            "signal": sent.name,
            "is_torch_real": is_torch_real,
            "moment": {"num_processes": moment.num_processes, "delay_s": moment.delay_s},
            "was_up": found.was_up,
            "most_processes": found.most,
            "tried": tried,
            "seconds_until_nothing_is_left": found.seconds,
            "left": {
                "processes": found.processes,
                "temporary": found.folders,
                "rings": found.rings,
                "others_ended": found.others,
            },
            "is_clean": found.is_clean,
        }
        if found.was_up or not found.is_clean:
            break
    return row


def summary_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What all kills came to."""
    seconds = sorted(row["seconds_until_nothing_is_left"] for row in rows)
    hit = [row for row in rows if row["was_up"]]
    return {
        "kills": len(hit),
        "left_something": [row["key"] for row in rows if not row["is_clean"]],
        "ended_before_the_kill": [row["key"] for row in rows if not row["was_up"]],
        "of_real_torch": sum(row["is_torch_real"] for row in hit),
        "by_verb": dict(Counter(row["verb"] for row in hit)),
        "by_signal": dict(Counter(row["signal"] for row in hit)),
        "seconds_median": seconds[len(seconds) // 2] if seconds else None,
        "seconds_most": seconds[-1] if seconds else None,
    }


def main() -> int:
    """The console program; 1 when a kill left something."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--real", type=int, default=30, help="how many of them run real torch")
    parser.add_argument("--beside", type=int, default=3, help="kills at the same time")
    parser.add_argument("--for-s", type=float, default=float("inf"), help="begin no kill after so many seconds")
    add_options(parser)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # A shell's background job ignores SIGINT, and what it starts would inherit that: no verb could be interrupted.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = Results(
        "kills",
        what="verbs killed at random moments by SIGKILL, SIGTERM and SIGINT, and what was left of each",
        measures=["src/emberward/processes", "src/emberward/testing/_kills.py"],
        settings={"seed": asked.seed, "kills": asked.kills, "real": asked.real},
        is_fresh=asked.fresh,
        folder=asked.into,
    )
    began_s = time.monotonic()
    open_kills = [number for number in range(asked.kills) if not results.has(f"kill {number}")]

    def make(number: int) -> tuple[int, dict[str, Any]] | None:
        if time.monotonic() - began_s > asked.for_s:
            return None
        return number, kill(asked.seed, number, is_torch_real=number >= asked.kills - asked.real)

    with ThreadPoolExecutor(asked.beside) as pool:
        for made in pool.map(make, open_kills):
            if made is None:
                continue
            number, row = made
            results.add(f"kill {number}", row)
            sys.stdout.write(
                f"kill {number}: {row['verb']} {row['signal']} {row['moment']} "
                f"{'clean' if row['is_clean'] else row['left']} {row['seconds_until_nothing_is_left']} s\n"
            )
            sys.stdout.flush()
    results.summarise(summary_of(list(results.latest().values())))
    return 0 if all(row["is_clean"] for row in results.latest().values()) else 1


if __name__ == "__main__":
    sys.exit(main())
