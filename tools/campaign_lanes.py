"""Random programs over lanes, run for real and held against a reference, into docs/measured/lane_programs.json.

    python tools/campaign_lanes.py [FIRST_SEED] [NUM_PROGRAMS]

A program submits tasks to one to four lanes, hands them tensors and each other's results, takes blocks, uses results,
calls collectives (noted, not made) on the main thread and on lanes, lets tasks fail, and writes in place into tensors
that were handed over. Four things are held: every value equals that of the same program on one thread; each lane's
tasks began in the order of their submits; W103 comes out for a task exactly where a write was planted before its end;
and of what the threads did, as `check` records it, `match` warns of unordered collectives (M107) exactly where a
reachability over the program's own edges finds a pair, and a replay of the trace on threads ends as `match` says.
"""

import argparse
import random
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from measured import Results, add_options

from emberward import lanes
from emberward.events import Collective, CollectiveOp, Event, Group, Observer, Site, Trace
from emberward.findings import EmberwardError
from emberward.match import check
from emberward.sources import Tape, Transport
from emberward.testing import ThreadReplayer

WORLD = Group(ranks=(0, 1), label="world")
REDUCE = Collective(op=CollectiveOp.ALL_REDUCE, group=WORLD, dtype="float32", numel=4)
LIMIT_S = 30.0
MAX_ACTS = 24


class Failed(Exception):
    """What a task of a program raises."""


@dataclass(frozen=True, slots=True)
class Act:
    """One act of the main thread. `inputs`: numbers of earlier tasks whose results are handed over, or that is used."""

    kind: str
    lane: int = 0
    inputs: tuple[int, ...] = ()
    has_call: bool = False
    fails: bool = False
    is_written: bool = False


@dataclass(slots=True)
class Outcome:
    """What one run gave: each task's value or the name of its error, the order in which each lane began, its events."""

    values: list[str] = field(default_factory=list)
    begun: dict[int, list[int]] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


def program_of(seed: int) -> tuple[int, list[Act]]:
    """The number of lanes and the acts of the program with this seed."""
    rng = random.Random(seed)
    num_lanes, acts, num_tasks = rng.randint(1, 4), list[Act](), 0
    for _ in range(rng.randint(4, MAX_ACTS)):
        kind = rng.choices(("submit", "use", "block", "call"), (5, 2, 1, 1))[0]
        call = rng.random() < 0.3
        if kind == "submit":
            inputs = tuple(rng.sample(range(num_tasks), min(num_tasks, rng.randint(0, 2))))
            lane, fails, is_written = rng.randrange(num_lanes), rng.random() < 0.05, rng.random() < 0.08
            # Whether the write is seen before the task's work or after it is chance: that task does nothing else.
            acts.append(Act(kind, lane, is_written=True) if is_written else Act(kind, lane, inputs, call, fails))
            num_tasks += 1
        elif kind == "use" and num_tasks:
            acts.append(Act(kind, inputs=(rng.randrange(num_tasks),)))
        elif kind == "block":
            acts.append(Act(kind, rng.randrange(num_lanes), (), call))
        elif kind == "call":
            acts.append(Act(kind, has_call=True))
    return num_lanes, acts


def step(number: int, tensor: torch.Tensor, values: list[torch.Tensor], fails: bool) -> torch.Tensor:
    """The work of a task."""
    if fails:
        raise Failed(str(number))
    return sum(values, start=torch.sin(tensor) * (number + 1))


def in_order(acts: list[Act]) -> list[str]:
    """What each task gives on one thread."""
    made: list[Any] = []
    for act in acts:
        if act.kind == "submit":
            made.append(_attempt(act, len(made), made))
    return [_shown(each) for each in made]


def _attempt(act: Act, number: int, made: list[Any]) -> Any:
    if act.is_written:
        return "W103"
    inputs = [made[each] for each in act.inputs]
    error = next((each for each in inputs if isinstance(each, str)), None)
    if error is not None:
        return error
    try:
        return step(number, torch.arange(4.0) + number, inputs, act.fails)
    except Failed:
        return f"Failed {number}"


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else str(value.tolist())


def run(num_lanes: int, acts: list[Act], rank: int) -> Outcome:
    """Runs a program on lanes. Blocks, at most some times LIMIT_S."""
    tape = Tape(rank, find_site=lambda: Site(file="program.py", line=1), transport=Transport.GLOO)
    found, results = Outcome(begun={lane: [] for lane in range(num_lanes)}), list[lanes.Result]()
    made = [lanes.lane(f"l{number}") for number in range(num_lanes)]

    def note(has_call: bool) -> None:
        if has_call:
            tape.call(REDUCE, is_blocking=True)

    def work(act: Act, number: int, tensor: torch.Tensor, gate: threading.Event | None, *values: Any) -> Any:
        found.begun[act.lane].append(number)
        if gate is not None:
            assert gate.wait(LIMIT_S), "the write did not come"
        note(act.has_call)
        return step(number, tensor, list(values), act.fails)

    with lanes.observing(tape):
        for act in acts:
            match act.kind:
                case "submit":
                    number, tensor = len(results), torch.arange(4.0) + len(results)
                    gate = threading.Event() if act.is_written else None
                    handed = [results[each] for each in act.inputs]
                    results.append(made[act.lane].submit(work, act, number, tensor, gate, *handed))
                    if gate is not None:
                        tensor.add_(1)
                        gate.set()
                case "use":
                    results[act.inputs[0]].exception(LIMIT_S)
                    tape.follow(results[act.inputs[0]]._task.point)
                case "block":
                    with made[act.lane]:
                        note(act.has_call)
                case _:
                    note(True)
        for lane in made:
            lane.submit(int).result(LIMIT_S)
    for result in results:
        error = result.exception(LIMIT_S)
        found.values.append(_error_text(error) if error is not None else _shown(result.result()))
    found.events = tape.events()
    return found


def _error_text(error: BaseException) -> str:
    return error.code if isinstance(error, EmberwardError) else f"Failed {error}"


def is_racing(acts: list[Act]) -> bool:
    """Whether two collectives of different threads are in no order, by the program's own edges alone."""
    after: dict[int, set[int]] = {}
    threads: dict[int, str] = {}
    calls: list[int] = []
    last: dict[str, int] = {}
    tasks: list[int] = []
    outcomes = in_order(acts)

    def node(thread: str, before: set[int], has_call: bool) -> int:
        number = len(threads)
        threads[number] = thread
        direct = before | ({last[thread]} if thread in last else set())
        after[number] = direct | {each for one in direct for each in after[one]}
        last[thread] = number
        if has_call:
            calls.append(number)
        return number

    for act in acts:
        lane = f"lane {act.lane}"
        match act.kind:
            case "submit":
                submitted = node("main", set(), False)
                # A task whose input failed does not begin, and does not wait for those behind it.
                failed = [at for at, each in enumerate(act.inputs) if outcomes[each][0] in "FW"]
                awaited = act.inputs[: failed[0] + 1] if failed else act.inputs
                tasks.append(node(lane, {submitted, *(tasks[each] for each in awaited)}, act.has_call and not failed))
            case "use":
                node("main", {tasks[act.inputs[0]]}, False)
            case "block":
                block = node("main", {last[lane]} if lane in last else set(), act.has_call)
                node(lane, {block}, False)
            case _:
                node("main", set(), True)
    pairs = [(a, b) for i, a in enumerate(calls) for b in calls[i + 1 :] if threads[a] != threads[b]]
    return any(a not in after[b] and b not in after[a] for a, b in pairs)


def disagreements(seed: int) -> tuple[list[str], bool]:
    """What does not hold of the program with this seed, and whether it has a race among its collectives."""
    num_lanes, acts = program_of(seed)
    wrong, runs = [], [run(num_lanes, acts, rank) for rank in (0, 1)]
    for found in runs:
        if found.values != in_order(acts):
            wrong.append(f"values {found.values}, on one thread {in_order(acts)}")
        if any(numbers != sorted(numbers) for numbers in found.begun.values()):
            wrong.append(f"order {found.begun}")
    trace = Trace(
        world_size=2, events={rank: found.events for rank, found in enumerate(runs)}, observer=Observer.DRY_RUN
    )
    verdict = check(trace)
    races = [finding for finding in verdict.findings if "two host threads" in finding.message]
    if bool(races) != is_racing(acts):
        wrong.append(f"races found {len(races)}, expected {is_racing(acts)}")
    replay = ThreadReplayer().replay(trace, time_limit_s=LIMIT_S)
    is_stuck = any(finding.code == "M104" for finding in verdict.findings)
    if replay.finished == is_stuck:
        wrong.append(f"the replay {'ended' if replay.finished else 'stopped'}, and match says {verdict.findings}")
    return wrong, bool(races)


def campaign(seeds: range, *, told: Callable[[str], object]) -> dict[str, Any]:
    """Figures over all programs."""
    figures = {"programs": 0, "tasks": 0, "blocks": 0, "writes_planted": 0, "failures_planted": 0, "with_a_race": 0}
    wrong: dict[int, list[str]] = {}
    for seed in seeds:
        _, acts = program_of(seed)
        found, has_race = disagreements(seed)
        figures["programs"] += 1
        figures["tasks"] += sum(act.kind == "submit" for act in acts)
        figures["blocks"] += sum(act.kind == "block" for act in acts)
        figures["writes_planted"] += sum(act.is_written for act in acts)
        figures["failures_planted"] += sum(act.fails for act in acts)
        figures["with_a_race"] += has_race
        if found:
            wrong[seed] = found
            told(f"seed {seed}: {found}\n")
    return {**figures, "disagreements": len(wrong), "wrong": wrong}


def main() -> int:
    """Exit code 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("count", nargs="?", type=int, default=2_000)
    add_options(parser)
    options = parser.parse_args()
    figures = campaign(range(options.first, options.first + options.count), told=sys.stderr.write)
    results = Results(
        "lane_programs",
        what="random programs over lanes against one thread, match and a replay on threads",
        measures=["src/emberward/lanes", "src/emberward/sources/_tape.py", "tools/campaign_lanes.py"],
        settings={"seeds": [options.first, options.first + options.count - 1]},
        is_fresh=options.fresh,
        folder=options.into,
    )
    results.add("all", figures)
    results.summarise({name: value for name, value in figures.items() if name != "wrong"})
    return 1 if figures["disagreements"] else 0


if __name__ == "__main__":
    sys.exit(main())
