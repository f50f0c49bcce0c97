"""Examines simulated fleets with planted faults and writes docs/measured/doctor.json.

Usage: python tools/campaign_doctor.py [--seeds N] [--seconds S] [--fresh] [CASE ...]

Each case is so many hosts with 0, 1, 2 or 5 faults of one kind, and chance failures at the planner's own rate. Counted:
tests and rounds against log2 of the number of possible fault sets, faults found, parts accused that are sound, and how
many the stated probabilities allow to be. A probe that itself fails now and then, whoever is tested, is found when it
is said and nobody is accused. Seeds come in blocks, one of each case in turn, until `--seconds` or
`--seeds` are used up; a later call goes on where this one ended.
"""

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

from measured import Results, add_options

from emberward.doctor import Examination, Fleet, Links, Plan, ProbePlan, Result, SetOutcome, Talk, findings_of

SIZES, COUNTS = (8, 64, 1024), (1, 2, 5)
BLOCK, BLOCK_S = 100, 0.5
"""A case has so many seeds in turn, or those of so many processor seconds, one at least."""
MAX_ROUNDS = 400
"""At least so many; more where a fault is so rare that `told_rounds` needs them."""
CERTAINTY, RARE_PRIOR = 0.999, 1e-3
"""From where on one of many devices is accused, and the planner's prior that a device fails in that share of tries."""
ROOM = (
    "belief",
    "busy",
    "chance",
    "choose",
    "exposure",
    "faults",
    "fleet",
    "numbers",
    "parting",
    "plan",
    "search",
    "slow",
    "tries",
)
"""The planner's files."""
SPURIOUS = 1e-3
NOISE = 0.01
"""One sigma of a value, as a share."""

Part = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Sort:
    """A sort of fault: what it hits, in sets of which size at least, in which share of tries, and how slow it makes.

    `per_host`: devices of each host. `talk`: the sets on which the probe makes sense.
    """

    part: str = "device"
    least: int = 1
    rate: float = 1.0
    slow_by: float = 0.0
    per_host: int = 1
    talk: Talk = Talk.ANY


SORTS = {
    "alone": Sort(),
    "in pairs": Sort(least=2),
    "in fours": Sort(least=4),
    "in one operation": Sort(least=2, talk=Talk.TOGETHER),
    "one in 2": Sort(rate=0.5),
    "one in 10": Sort(rate=0.1),
    "one in 50": Sort(rate=0.02),
    "one in 8 of everybody": Sort(part="probe", rate=1 / 8),
    "one in 20 of everybody": Sort(part="probe", rate=0.05),
    "one in 50 of everybody": Sort(part="probe", rate=0.02),
    "slow by 5%": Sort(slow_by=0.05, talk=Talk.ALONE),
    "slow by 20%": Sort(slow_by=0.2, talk=Talk.ALONE),
    "slow by 50%": Sort(slow_by=0.5, talk=Talk.ALONE),
    "link": Sort(part="link"),
    "links of two hosts": Sort(part="cable", per_host=2),
    "network of a host": Sort(part="host", per_host=2),
    "switch": Sort(part="switch"),
    "links of two groups": Sort(part="cut"),
}


def is_sought(name: str, size: int, count: int) -> bool:
    """Whether the faults can be told: some sets must be sound, and pairs few enough to try them all.

    What shows in one of 50 tries, and a probe that fails by itself, are alone: their examinations take a minute.
    """
    sort = SORTS[name]
    if sort.part in ("link", "cable") and size > 64:
        return False
    if sort.part == "probe" and size > 64:
        return False
    if sort.part in ("cut", "probe") or sort.rate < 0.05:
        return count <= 1
    if size == 8 and count == 5:
        return sort.least < 4 and sort.part not in ("switch", "cable") and not sort.slow_by
    return True


def fleet_of(sort: Sort, size: int) -> Fleet:
    """The fleet; below switches of as many hosts as there are switches, or nearly, where switches are sought."""
    hosts = [f"n{i}" for i in range(size)]
    below = 2 ** (int(math.log2(size)) // 2)
    paths = {host: (f"s{i // below}", "top") for i, host in enumerate(hosts)} if sort.part == "switch" else None
    return Fleet.of(hosts, sort.per_host, paths)


def planted_in(sort: Sort, fleet: Fleet, count: int, rng: random.Random) -> set[Part]:
    """`count` different parts of the sort."""
    hosts = list(dict.fromkeys(device.host for device in fleet.devices))
    match sort.part:
        case "device":
            return {("device", (number,)) for number in rng.sample(range(len(fleet)), count)}
        case "probe":
            return {("probe", ())}
        case "host":
            return {("host", (host,)) for host in rng.sample(hosts, count)}
        case "switch":
            leaves = sorted({path[0] for path in fleet.switches.values()})
            return {("switch", (leaf,)) for leaf in rng.sample(leaves, count)}
        case "cut":
            return {("cut", tuple(sorted(hosts[: rng.randrange(2, len(hosts) - 1)]))) for _ in range(count)}
        case _:
            ends: list[Any] = list(range(len(fleet))) if sort.part == "link" else list(hosts)
            pairs = {tuple(sorted(rng.sample(ends, 2))) for _ in range(count)}
            while len(pairs) < count:
                pairs.add(tuple(sorted(rng.sample(ends, 2))))
            return {(sort.part, pair) for pair in pairs}


def shower(sort: Sort, fleet: Fleet, planted: Iterable[Part]) -> Callable[[tuple[int, ...]], list[Part]]:
    """Tells which planted parts a set exercises."""
    host_of = [device.host for device in fleet.devices]
    by_key = {key[0]: (kind, key) for kind, key in planted if key}
    parts = list(planted)

    def shown(devices: tuple[int, ...]) -> list[Part]:
        if len(devices) < sort.least or not parts:
            return []
        if sort.part == "device":
            return [by_key[n] for n in devices if n in by_key]
        if sort.part == "probe":
            return parts * len(devices)
        if sort.part == "link":
            members = set(devices)
            return [part for part in parts if members.issuperset(part[1])]
        hosts = {host_of[n] for n in devices}
        if len(hosts) < 2:
            return []
        match sort.part:
            case "host":
                return [by_key[host] for host in hosts if host in by_key]
            case "switch":
                leaves = {fleet.switches[host][0] for host in hosts}
                pairs = [(a, b) for a, b in combinations(sorted(hosts), 2)] if len(leaves) == 1 else []
                return [by_key[leaf] for leaf in leaves if leaf in by_key and (pairs or len(leaves) > 1)]
            case "cable":
                return [part for part in parts if hosts.issuperset(part[1])]
            case _:
                return [part for part in parts if len({host in part[1] for host in hosts}) > 1]

    return shown


def examine(name: str, size: int, count: int, seed: int) -> tuple[Plan, set[Part]]:
    """The plan at its end, and the planted parts."""
    sort, rng = SORTS[name], random.Random(f"{name} {size} {count} {seed}")
    fleet = fleet_of(sort, size)
    planted = planted_in(sort, fleet, count, rng)
    shown = shower(sort, fleet, planted)
    plan = Plan(fleet, ProbePlan(name="sim", talk=sort.talk), random.Random(seed))

    def tested(devices: tuple[int, ...]) -> Result:
        found, values = shown(devices), {}
        is_bad = rng.random() < SPURIOUS
        if sort.slow_by:
            pace = 1 - sort.slow_by if found else 1.0
            values = dict.fromkeys(devices, 100 * pace * (1 + rng.gauss(0, NOISE)))
        else:
            is_bad |= any(rng.random() < sort.rate for _ in found)
        outcome = SetOutcome.FAIL if is_bad else SetOutcome.PASS
        return Result(devices=devices, outcome=outcome, seconds=1.0, links=Links.ALL, values=values)

    max_rounds = max(MAX_ROUNDS, told_rounds(sort.rate)[1])
    while plan.round < max_rounds and (sets := plan.next_round()):
        plan.learn([tested(devices) for devices in sets])
    return plan, planted


def same_cut(fleet: Fleet, part: Part) -> Part:
    """A cut by the side that holds the first host."""
    if part[0] != "cut" or "n0" in part[1]:
        return part
    return "cut", tuple(sorted({device.host for device in fleet.devices} - set(part[1])))


def case(name: str, size: int, count: int, seeds: range) -> dict[str, Any]:
    """Figures of one kind of fault in one size, over the first of these seeds, see BLOCK_S."""
    tests: list[int] = []
    rounds: list[int] = []
    found, wrong, allowed, began_s = 0, 0, 0.0, time.process_time()
    wrong_seeds, num_parts = [], 0
    for seed in seeds:
        if rounds and time.process_time() > began_s + BLOCK_S:
            break
        plan, planted = examine(name, size, count, seed)
        sought = {same_cut(plan.fleet, part) for part in planted}
        accused = {
            same_cut(plan.fleet, (each.part.kind.value, each.part.key)): each.certainty for each in plan.suspects()
        }
        findings = findings_of(Examination(fleet=plan.fleet, plans=(plan,), seconds=1.0))
        said = {("probe", ()) for each in findings if each.code == "E106"}
        found += len((accused.keys() | said) & sought)
        if false := accused.keys() - sought:
            wrong += len(false)
            wrong_seeds.append(seed)
        allowed += sum(1 - certainty for certainty in accused.values())
        tests.append(len(plan.results))
        rounds.append(plan.round)
        num_parts = parts_of(SORTS[name], plan.fleet)
    return {
        "case": f"{size} hosts, {count} {name}",
        "seeds": len(rounds),
        "planted": len(rounds) * count,
        "found": found,
        "sound_accused": wrong,
        "sound_accused_in": wrong_seeds,
        "sound_allowed": round(allowed, 4),
        "tests": tests,
        "rounds": rounds,
        "bound_tests": round(math.log2(math.comb(num_parts, count)), 1),
        "bound_rounds": bound_rounds(SORTS[name].rate),
        "told_rounds": told_rounds(SORTS[name].rate),
        "processor_s": round(time.process_time() - began_s, 2),
    }


def bound_rounds(rate: float) -> int:
    """Rounds after which a part that fails in that share of its tries is missed in 1 of 100 cases, one try a round."""
    return 1 if rate >= 1 else math.ceil(math.log(0.01) / math.log1p(-rate))


@cache
def told_rounds(rate: float) -> tuple[int, int]:
    """Rounds in which half and 99 of 100 devices with such a fault are told from chance, tried by themselves in each.

    With k failures in n rounds the odds are RARE_PRIOR x (p / SPURIOUS)^k x ((1 - p) / (1 - SPURIOUS))^(n - k), where p
    is P(fail | fault); the device is told when they reach those of CERTAINTY. No order of tests tells it sooner.
    """
    fails = 1 - (1 - SPURIOUS) * (1 - rate)
    needed = math.log(CERTAINTY / (1 - CERTAINTY) / RARE_PRIOR)
    step, cost = math.log(fails / SPURIOUS), math.log((1 - min(fails, 1 - 1e-9)) / (1 - SPURIOUS))
    open_, told, median, num = {0: 1.0}, 0.0, 0, 0
    while told < 0.99:
        num += 1
        after: dict[int, float] = {}
        for k, p in open_.items():
            after[k] = after.get(k, 0.0) + p * (1 - fails)
            after[k + 1] = after.get(k + 1, 0.0) + p * fails
        open_ = {k: p for k, p in after.items() if k * step + (num - k) * cost < needed}
        told = 1 - sum(open_.values())
        median = median or num * (told >= 0.5)
    return median, num


def parts_of(sort: Sort, fleet: Fleet) -> int:
    """Among how many parts a fault of the sort is sought."""
    hosts = len(fleet) // sort.per_host
    match sort.part:
        case "device":
            return len(fleet)
        case "probe":
            return 1
        case "host":
            return hosts
        case "switch":
            return len({path[0] for path in fleet.switches.values()})
        case "cut":
            return hosts - 3
        case "link":
            return math.comb(len(fleet), 2)
        case _:
            return math.comb(hosts, 2)


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Totals, and of each case its seeds, faults found, tests and rounds."""
    cases: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cases.setdefault(row["case"], []).append(row)
    names = ("seeds", "planted", "found", "sound_accused")
    total: dict[str, object] = {name: sum(row[name] for row in rows) for name in names}
    total["sound_allowed"] = round(sum(row["sound_allowed"] for row in rows), 2)
    total["processor_s"] = round(sum(row["processor_s"] for row in rows))
    total["cases"] = {
        name: {
            **{each: sum(row[each] for row in part) for each in names},
            "tests_median": statistics.median(n for row in part for n in row["tests"]),
            "rounds_median": statistics.median(n for row in part for n in row["rounds"]),
            "rounds_worst": max(n for row in part for n in row["rounds"]),
            "bound_tests": part[0]["bound_tests"],
            "bound_rounds": part[0]["bound_rounds"],
            "told_rounds": part[0]["told_rounds"],
            "processor_s_per_seed": round(
                sum(row["processor_s"] for row in part) / sum(row["seeds"] for row in part), 3
            ),
        }
        for name, part in cases.items()
    }
    return total


def main() -> int:
    """Exit code 1 when more sound parts were accused than the stated probabilities allow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="such as '64 hosts, 1 link'; all when none is named")
    parser.add_argument("--seeds", type=int, default=10_000, help="of all cases together")
    parser.add_argument("--seconds", type=float, default=3600.0, help="of this call")
    add_options(parser)
    options = parser.parse_args()
    results = Results(
        "doctor",
        what="the doctor's planner on simulated fleets with planted faults and chance failures",
        measures=[f"src/emberward/doctor/_{part}.py" for part in ROOM],
        settings={"spurious": SPURIOUS, "noise": NOISE, "max_rounds": MAX_ROUNDS, "certainty": CERTAINTY},
        is_fresh=options.fresh,
        folder=options.into,
    )
    cases = [
        (size, name, count)
        for count in COUNTS
        for size in SIZES
        for name in SORTS
        if is_sought(name, size, count)
        if not options.cases or f"{size} hosts, {count} {name}" in options.cases
    ]
    end_s, block = time.monotonic() + options.seconds, 0
    done = sum(row["seeds"] for row in results.latest().values())
    while cases and time.monotonic() < end_s and done < options.seeds:
        for size, name, count in cases:
            key = f"{size} hosts, {count} {name}, block {block}"
            if not results.has(key) and time.monotonic() < end_s and done < options.seeds:
                row = case(name, size, count, range(block * BLOCK, (block + 1) * BLOCK))
                results.add(key, row)
                done += row["seeds"]
        block += 1
    total = summary(list(results.latest().values()))
    results.summarise(total)
    return 1 if total["sound_accused"] > total["sound_allowed"] else 0


if __name__ == "__main__":
    sys.exit(main())
