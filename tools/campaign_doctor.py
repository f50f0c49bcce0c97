"""Examines simulated fleets with planted faults and writes docs/measured/doctor.json.

Usage: python tools/campaign_doctor.py [--seeds N] [--seconds S] [--fresh]

Each case is a fleet of one-device hosts with 1, 2 or 5 faults of one kind, and chance
failures at the planner's own rate. Counted: tests and rounds against log2 of the number of possible fault sets, faults
found, and parts accused that are sound. A case stops early when its share of `--seconds` is used: the file holds the
true number of seeds.
"""

import argparse
import math
import random
import statistics
import sys
import time

from measured import Results, add_options

from emberward.doctor import Fleet, Links, Outcome, Plan, ProbePlan, Result

SIZES, COUNTS = (8, 64, 1024), (1, 2, 5)
KINDS = ("device", "together", "half", "link")
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


def case(size: int, kind: str, count: int, *, seeds: int, limit_s: float) -> dict[str, object]:
    """Figures of one kind of fault in one size, over as many seeds as the time allows."""
    began_s, tests, rounds, found, wrong, done = time.monotonic(), [], [], 0, 0, 0
    for seed in range(seeds):
        if time.monotonic() - began_s > limit_s:
            break
        plan, planted = examine(size, kind, count, seed)
        accused = {tuple(int(n) for n in each.part.key) for each in plan.suspects() if each.part.kind != "host"}
        found += len(accused & planted)
        wrong += len(accused - planted)
        tests.append(len(plan.results))
        rounds.append(plan.round)
        done += 1
    parts = math.comb(size, 2) if kind == "link" else size
    return {
        "seeds": done,
        "planted": done * count,
        "found": found,
        "sound_accused": wrong,
        "tests_median": statistics.median(tests),
        "rounds_median": statistics.median(rounds),
        "rounds_worst": max(rounds),
        "bound_tests": round(math.log2(math.comb(parts, count)), 1),
    }


def main() -> int:
    """Exit code 1 when a sound part was accused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=3600.0, help="for all cases together")
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "doctor",
        what="the doctor's planner on simulated fleets with planted faults and chance failures",
        measures=["src/emberward/doctor"],
        settings={"seeds": options.seeds, "seconds": options.seconds, "spurious": SPURIOUS},
        is_fresh=options.fresh,
        folder=options.into,
    )
    cases = [
        (size, kind, count)
        for size in SIZES
        for kind in KINDS
        for count in COUNTS
        if not (kind == "link" and size > 64)
    ]
    for size, kind, count in cases:
        row = case(size, kind, count, seeds=options.seeds, limit_s=options.seconds / len(cases))
        results.add(f"{size} {kind} {count}", row)
    rows = list(results.latest().values())
    total = {name: sum(row[name] for row in rows) for name in ("seeds", "planted", "found", "sound_accused")}
    results.summarise(total)
    return 1 if total["sound_accused"] else 0


if __name__ == "__main__":
    sys.exit(main())
