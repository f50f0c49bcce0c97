"""One examination: plans and runners brought together, within a budget of time."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from emberward.doctor._answers import Answers
from emberward.doctor._faults import Kind
from emberward.doctor._fleet import Fleet, Result
from emberward.doctor._plan import Plan, ProbePlan
from emberward.doctor._probe import Probe
from emberward.doctor._runner import Runner

BUILTIN_PRIOR = 1e-3
"""That one of our own probes fails everywhere by itself; one of a person's own does so more often (ProbePlan)."""
BUSY_PAUSE_S = 0.5

OnRound = Callable[[str, int, Sequence[Result]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What was examined with what, and what is known. `plans`: one for each probe, in order."""

    fleet: Fleet
    plans: tuple[Plan, ...]
    seconds: float
    is_out_of_time: bool
    left_behind: int = 0


def examine(
    runner: Runner,
    probes: Sequence[Probe],
    *,
    budget_s: float,
    seed: int,
    suspected: frozenset[int] = frozenset(),
    is_quick: bool = False,
    on_round: OnRound = lambda name, number, results: None,
) -> Examination:
    """Examines the runner's fleet with each probe in turn. Blocks, at most `budget_s` and the end of a test.

    What one probe found is left out of the sets of the next. Time that a probe does not need is left to the others.
    `suspected`, `is_quick`: see `Plan`.
    """
    began_s = time.monotonic()
    end_s = began_s + budget_s
    plans: list[Plan] = []
    is_late = False
    left_out: frozenset[int] = frozenset()
    for place, probe in enumerate(probes):
        now_s = time.monotonic()
        until_s = now_s + max(end_s - now_s, 0.0) / (len(probes) - place)
        plan = Plan(
            runner.fleet,
            ProbePlan(
                name=probe.name,
                talk=probe.talk,
                links=probe.links,
                **({"common_prior": BUILTIN_PRIOR} if probe.is_builtin else {}),
            ),
            random.Random(f"{seed} {probe.name}"),
            left_out=left_out,
            suspected=suspected,
            is_quick=is_quick,
        )
        plans.append(plan)
        answers = Answers(runner.fleet)
        asked = 0
        while time.monotonic() < until_s and (sets := plan.next_round()):
            results = answers.judged(runner.run(probe, sets, until_s=until_s))
            plan.learn(results)
            on_round(probe.name, plan.round, results)
            if any(result.busy for result in results) and plan.round > 1:
                asked += 1
                time.sleep(min(BUSY_PAUSE_S * 2**asked, 5.0, max(until_s - time.monotonic(), 0.0)))
        if not plan.why_ended:
            plan.why_ended = "the budget is used up"
            is_late = True
        left_out |= frozenset(
            int(n)
            for each in plan.suspects()
            if each.slow is None and each.part.kind is Kind.DEVICE
            for n in each.part.key
        )
    return Examination(
        fleet=runner.fleet,
        plans=tuple(plans),
        seconds=time.monotonic() - began_s,
        is_out_of_time=is_late,
        left_behind=runner.left_behind,
    )
