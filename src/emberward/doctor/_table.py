"""The evidence as text for people: what was tested with whom, what failed, what is left open. Pure."""

import math
from collections.abc import Iterator

from emberward.doctor._examine import Examination
from emberward.doctor._findings import part_text
from emberward.doctor._fleet import Fleet, SetOutcome
from emberward.doctor._plan import Plan
from emberward.doctor._verdict import numbers_of, percent, set_text

MAX_TESTS = 20


def table_of(examination: Examination) -> str:
    """The table, probe by probe, and what the budget left untried."""
    lines = [line for plan in examination.plans for line in _of_plan(examination.fleet, plan)]
    return "\n".join([*lines, *_untried(examination)])


def _untried(examination: Examination) -> Iterator[str]:
    if not examination.untried:
        return
    yield f"not tried, for want of time: {', '.join(examination.untried)}"
    least_s = examination.least_budget_s
    how_long = "more: no round ended" if least_s is None else f"{math.ceil(least_s / 10) * 10}"
    took = "" if examination.round_s is None else f": a round took {examination.round_s:.0f} s here"
    yield f"  next      --budget {how_long}{took}"


def _of_plan(fleet: Fleet, plan: Plan) -> Iterator[str]:
    yield f"probe {plan.probe.name}: {len(plan.results)} tests in {plan.round} rounds; {plan.why_ended}"
    shown = [(n, r) for n, r in plan.results if r.outcome is not SetOutcome.PASS]
    if len(plan.results) <= MAX_TESTS:
        shown = plan.results
    for round_, result in shown[:MAX_TESTS]:
        first = min(result.failed, default=None)
        said = "" if first is None else f"   {fleet.devices[first]} {result.reports.get(first, '')}"
        yield f"  round {round_:<4} {result.outcome.value:<5} {set_text(fleet, result.devices)}{said}"
    if len(plan.results) > len(shown[:MAX_TESTS]):
        passed = sum(result.outcome is SetOutcome.PASS for _, result in plan.results)
        yield f"  {passed} of {len(plan.results)} tests passed"
    if plan.numbers.raw:
        said_numbers = numbers_of(plan)
        noise = said_numbers["noise_floor"]
        if noise is not None:
            yield f"  noise of one value {percent(noise)}"
        slow = [name for name, row in said_numbers["devices"].items() if row["is"] == "slow"]
        quiet = len(said_numbers["devices"]) - len(slow)
        if said_numbers["devices"]:
            yield f"  slow alone: {', '.join(slow) or 'none'}; within the noise: {quiet} devices"
        cells = said_numbers["cells"]
        if cells:
            slow_cells = [" - ".join(cell["link"]) for cell in cells if cell["is"] == "slow"]
            yield f"  slow links: {', '.join(slow_cells[:6]) or 'none'} of {len(cells)} measured"
    if plan.busy:
        yield f"  busy, left out: {set_text(fleet, sorted(plan.busy))}"
    for each in plan.open_parts()[:6]:
        yield f"  left open: {part_text(fleet, each.part)} ({percent(each.certainty)})"
