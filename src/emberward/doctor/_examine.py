"""One examination: plans and runners brought together, within a budget of time."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
    """What was examined with what, and what is known. `plans`: one for each probe, in order.

    `untried`: the probes of which the budget left no test.
    """

    fleet: Fleet
    plans: tuple[Plan, ...]
    seconds: float
    untried: tuple[str, ...] = ()
    left_behind: int = 0

    @property
    def round_s(self) -> float | None:
        """How long a round took at most, as long as the slowest of its tests; None where none ended."""
        return max((result.seconds for plan in self.plans for _, result in plan.results), default=None)

    @property
    def least_budget_s(self) -> float | None:
        """The budget in which each probe makes one round, as long as they took here; None where none ended."""
        return None if self.round_s is None else len(self.plans) * self.round_s


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

    What one probe found is left out of the sets of the next. Time that a probe does not need is left to the others. Its
    first round may take more than its share, up to the budget's end: cut, it would tell nothing.
    `suspected`, `is_quick`: see `Plan`.
    """
    began_s = time.monotonic()
    end_s = began_s + budget_s
    plans: list[Plan] = []
    untried: list[str] = []
    left_out: frozenset[int] = frozenset()
    for place, probe in enumerate(probes):
        now_s = time.monotonic()
        until_s = now_s + max(end_s - now_s, 0.0) / (len(probes) - place)
        draws = random.Random(f"{seed} {probe.name}")
        options: dict[str, Any] = {"left_out": left_out, "suspected": suspected, "is_quick": is_quick}
        plan = Plan(runner.fleet, _plan_of(probe), draws, **options)
        plans.append(plan)
        answers = Answers(runner.fleet)
        asked = 0
        round_s = 0.0
        while (round_began_s := time.monotonic()) + round_s < until_s and (sets := plan.next_round()):
            results = answers.judged(runner.run(probe, sets, until_s=end_s))
            round_s = time.monotonic() - round_began_s
            plan.learn(results)
            on_round(probe.name, plan.round, results)
            if any(result.busy for result in results) and plan.round > 1:
                asked += 1
                time.sleep(min(BUSY_PAUSE_S * 2**asked, 5.0, max(until_s - time.monotonic(), 0.0)))
        if not plan.why_ended:
            plan.why_ended = "the budget is used up"
            untried += [] if plan.results else [probe.name]
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
        untried=tuple(untried),
        left_behind=runner.left_behind,
    )


def _plan_of(probe: Probe) -> ProbePlan:
    prior = {"common_prior": BUILTIN_PRIOR} if probe.is_builtin else {}
    return ProbePlan(name=probe.name, talk=probe.talk, links=probe.links, **prior)
