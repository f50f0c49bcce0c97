"""Examines simulated fleets with planted faults and writes docs/measured/doctor.json.

Usage: python tools/campaign_doctor.py [--seeds N] [--seconds S] [--fresh]

Each case is a fleet of one-device hosts with 1, 2 or 5 faults of one kind, and chance failures at the planner's own
rate. Counted: tests and rounds against log2 of the number of possible fault sets, faults found, parts accused that are
sound, and how many the stated probabilities allow to be. Seeds come in blocks, one of each case in turn, until
`--seconds` or `--seeds` are used up; a later call goes on where this one ended.
"""

import argparse
import math
import random
import statistics
import sys
import time
from typing import Any

from measured import Results, add_options

from emberward.doctor import Fleet, Links, Outcome, Plan, ProbePlan, Result

SIZES, COUNTS = (8, 64, 1024), (1, 2, 5)
KINDS = ("device", "together", "half", "four", "link")
BLOCK = {8: 10, 64: 5, 1024: 1}
"""Seeds that run between two looks at the clock."""
MAX_ROUNDS = 150
SPURIOUS = 1e-3


def examine(size: int, kind: str, count: int, seed: int) -> tuple[Plan, set[tuple[int, ...]]]:
    """The plan at its end, and the planted parts."""
    rng = random.Random(f"{size} {kind} {count} {seed}")
    if kind == "link":
        planted: set[tuple[int, ...]] = set()
        while len(planted) < count:
            planted.add(tuple(sorted(rng.sample(range(size), 2))))
    else:
        planted = {(number,) for number in rng.sample(range(size), count)}
    rate = 0.5 if kind == "half" else 1.0

    def fails(devices: tuple[int, ...]) -> bool:
        if rng.random() < SPURIOUS:
            return True
        if kind == "together" and len(devices) < 2:
            return False
        if kind == "four" and len(devices) < 4:
            return False
        members = set(devices)
        return any(members.issuperset(part) and rng.random() < rate for part in planted)

    plan = Plan(Fleet.of([f"n{i}" for i in range(size)], 1), ProbePlan(name="sim"), random.Random(seed))
    while plan.round < MAX_ROUNDS and (sets := plan.next_round()):
        plan.learn(
            [
                Result(
                    devices=devices,
                    outcome=Outcome.FAIL if fails(devices) else Outcome.PASS,
                    seconds=1.0,
                    links=Links.ALL,
                )
                for devices in sets
            ]
        )
    return plan, planted


def case(size: int, kind: str, count: int, seeds: range) -> dict[str, object]:
    """Figures of one kind of fault in one size, over these seeds."""
    tests, rounds, found, wrong, allowed, began_s = [], [], 0, 0, 0.0, time.process_time()
    for seed in seeds:
        plan, planted = examine(size, kind, count, seed)
        accused = {tuple(int(n) for n in each.part.key): each for each in plan.suspects() if each.part.kind != "host"}
        found += len(accused.keys() & planted)
        wrong += len(accused.keys() - planted)
        allowed += sum(1 - each.certainty for each in accused.values())
        tests.append(len(plan.results))
        rounds.append(plan.round)
    parts = math.comb(size, 2) if kind == "link" else size
    return {
        "case": f"{size} {kind} {count}",
        "seeds": len(seeds),
        "planted": len(seeds) * count,
        "found": found,
        "sound_accused": wrong,
        "sound_allowed": round(allowed, 4),
        "tests": tests,
        "rounds": rounds,
        "bound_tests": round(math.log2(math.comb(parts, count)), 1),
        "processor_s": round(time.process_time() - began_s, 2),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, object]:
    """Totals, and of each case its seeds, faults found, tests and rounds."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], []).append(row)
    names = ("seeds", "planted", "found", "sound_accused")
    total: dict[str, object] = {name: sum(row[name] for row in rows) for name in names}
    total["sound_allowed"] = round(sum(row["sound_allowed"] for row in rows), 2)
    total["cases"] = {
        name: {
            **{each: sum(row[each] for row in part) for each in names},
            "tests_median": statistics.median(n for row in part for n in row["tests"]),
            "rounds_median": statistics.median(n for row in part for n in row["rounds"]),
            "rounds_worst": max(n for row in part for n in row["rounds"]),
            "bound_tests": part[0]["bound_tests"],
            "processor_s_per_seed": round(
                sum(row["processor_s"] for row in part) / sum(row["seeds"] for row in part), 3
            ),
        }
        for name, part in cases.items()
    }
    return total


def main() -> int:
    """Exit code 1 when a sound part was accused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000, help="of all cases together")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of this call")
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "doctor",
        what="the doctor's planner on simulated fleets with planted faults and chance failures",
        measures=[f"src/emberward/doctor/_{part}.py" for part in ("belief", "choose", "fleet", "numbers", "plan")],
        settings={"spurious": SPURIOUS, "max_rounds": MAX_ROUNDS},
        is_fresh=options.fresh,
        folder=options.into,
    )
    cases = [
        (size, kind, count)
        for count in COUNTS
        for size in SIZES
        for kind in KINDS
        if not (kind == "link" and size > 64)
    ]
    end_s, block = time.monotonic() + options.seconds, 0
    while time.monotonic() < end_s and sum(row["seeds"] for row in results.latest().values()) < options.seeds:
        for size, kind, count in cases:
            key = f"{size} {kind} {count} block {block}"
            if not results.has(key) and time.monotonic() < end_s:
                results.add(key, case(size, kind, count, range(block * BLOCK[size], (block + 1) * BLOCK[size])))
        block += 1
    total = summary(list(results.latest().values()))
    results.summarise(total)
    return 1 if total["sound_accused"] else 0


if __name__ == "__main__":
    sys.exit(main())
