"""The findings of an examination: what is bad, what is open, what the probe does by itself. Pure."""

import statistics
from collections.abc import Sequence

from emberward.doctor._examine import Examination
from emberward.doctor._faults import Kind, Part, Scope
from emberward.doctor._fleet import Fleet, SetOutcome
from emberward.doctor._kinds import LEAST_ALIKE
from emberward.doctor._numbers import LEAST_GAP
from emberward.doctor._plan import Plan
from emberward.doctor._slow import Suspect
from emberward.doctor._verdict import MAX_EVIDENCE, Verdict, percent, ruled_out, set_text, verdicts_of
from emberward.findings import Cause, Certainty, Finding, Severity
from emberward.findings import Kind as FindingKind

CODES = {"device": "E101", "link": "E102", "host": "E103", "switch": "E104"}


def findings_of(examination: Examination) -> tuple[Finding, ...]:
    """The findings: an error for each verdict, a warning for what is left open, a notice when nothing was found."""
    found = [_finding(each, examination) for each in verdicts_of(examination)]
    for plan in examination.plans:
        if (how := _by_itself(plan)) is not None:
            found.append(_common(plan, *how))
        elif (open_ := plan.open_parts()) and open_[0].certainty >= OPEN_FROM:
            found.append(_open(plan, open_))
    unlike = [_unlike(plan) for plan in examination.plans if _levels(plan)]
    return (*(found or [_nothing(examination)]), *unlike)


OPEN_FROM = 0.2
"""Below, what may be bad is listed and no finding is made of it."""


def _where(verdict: Verdict) -> str:
    if verdict.devices:
        return f"device {verdict.devices[0]}"
    if verdict.kind == "link":
        ends = [" and ".join(link) for link in verdict.links]
        return f"the link between {'; '.join(ends[:3])}" if ends else f"the link between {' and '.join(verdict.hosts)}"
    if verdict.part.kind is Kind.CUT:
        side = [str(host) for host in verdict.part.key]
        others = [host for host in verdict.hosts if host not in side]
        if not others or set(others) == set(verdict.hosts):
            return f"what connects {_few(verdict.hosts)} with the others"
        return f"what connects {_few(side)} with {_few(others)}"
    return f"host {verdict.hosts[0]}" if verdict.kind == "host" else f"switch {verdict.part.key[0]}"


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def _finding(verdict: Verdict, examination: Examination) -> Finding:
    is_link = verdict.kind in ("link", "switch")
    if verdict.slow_by is not None:
        what = f"{_where(verdict)} is {percent(verdict.slow_by)} slower than its peers"
    else:
        when = "" if verdict.scope in (None, Scope.ALWAYS) or is_link else " when it works with others"
        often = "" if verdict.rate is None or verdict.rate > 0.9 else ", now and then"
        what = f"{_where(verdict)} fails{when}{often}"
    of = f" (probe {', '.join(verdict.probes)})"
    rest = [line for plan in examination.plans if plan.probe.name in verdict.probes for line in ruled_out(plan)]
    target = "both ends" if verdict.kind == "link" else _few(verdict.hosts or verdict.devices)
    if verdict.part.kind is Kind.CUT and len(verdict.hosts) == 2 * len(verdict.part.key):
        target = f"{_few([str(host) for host in verdict.part.key])}, or the others,"
    return Finding(
        code=CODES[verdict.kind],
        severity=Severity.ERROR,
        kind=FindingKind.LINK if is_link else FindingKind.DEVICE,
        cause=verdict.cause,
        certainty=verdict.certainty,
        message=what + of,
        hosts=verdict.hosts or tuple(sorted({device.rpartition(":")[0] for device in verdict.devices})),
        devices=verdict.devices,
        links=verdict.links,
        evidence=verdict.evidence,
        ruled_out=tuple(rest),
        next=f"leave {target} out, and give this table to whoever repairs it",
    )


def _by_itself(plan: Plan) -> tuple[Severity, str] | None:
    """How the probe fails by itself, in words; None where parts explain what failed, or nothing did."""
    if plan.suspects():
        return None
    if plan.common() > 0.5 and not any(result.outcome is SetOutcome.PASS for _, result in plan.results):
        alone = "" if len(plan.fleet) > 1 else "; with one device nothing can be compared"
        return Severity.ERROR, f"fails everywhere, so that it accuses no device{alone}"
    if plan.belief.own(plan.clusters(with_settled=False), is_faint=False) > 0.5:
        number, by_sets = plan.belief.tally.one_in()
        whose = "of each set of two or more" if by_sets else "of each member"
        return Severity.WARNING, f"itself fails in about 1 of {number} tries {whose}, so that it accuses no device"
    return None


def _common(plan: Plan, severity: Severity, how: str) -> Finding:
    said = next(
        (
            f"{plan.fleet.devices[number]}: {result.reports[number]}"
            for _, result in plan.results
            for number in sorted(result.failed)
            if number in result.reports
        ),
        "",
    )
    return Finding(
        code="E106",
        severity=severity,
        kind=FindingKind.CONFIG,
        cause=Cause.UNKNOWN,
        certainty=Certainty.INFERRED,
        message=f"probe {plan.probe.name} {how}",
        evidence=(said,) if said else (),
        next="start the probe by hand on one device, and read what it says",
    )


def _levels(plan: Plan) -> dict[str, tuple[list[int], float]]:
    """What members say of themselves, with who says it and the median value alone; empty where all are alike."""
    numbers = plan.numbers
    found = {
        said: (group, statistics.median(value for n in group for value in numbers.raw[(n,)]))
        for said, group in numbers.kinds.groups(n for n in range(len(plan.fleet)) if numbers.raw.get((n,))).items()
    }
    values = [value for _, value in found.values()]
    return found if values and max(values) > (1 + LEAST_GAP) * min(values) and len(found) > 1 else {}


def _unlike(plan: Plan) -> Finding:
    rows = sorted(_levels(plan).items(), key=lambda item: -len(item[1][0]))
    lines = [
        f"{plan.probe.name}: {set_text(plan.fleet, group)}: {value:.3g} {plan.numbers.unit} and say {said or 'nothing'}"
        + ("; too few to be compared" if len(group) < LEAST_ALIKE else "")
        for said, (group, value) in rows
    ]
    others = sorted(number for _, (group, _) in rows[1:] for number in group)
    return Finding(
        code="E111",
        severity=Severity.NOTICE,
        kind=FindingKind.CONFIG,
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        message=f"{set_text(plan.fleet, others)} say that they are of another kind than the others: each was compared "
        f"with those alone that say the same (probe {plan.probe.name})",
        hosts=tuple(sorted({plan.fleet.devices[number].host for number in others})),
        evidence=tuple(lines[:MAX_EVIDENCE]),
        next="see whether they are to be so",
    )


def _open(plan: Plan, open_: Sequence[Suspect]) -> Finding:
    names = [part_text(plan.fleet, each.part) for each in open_[:6]]
    devices = [str(plan.fleet.devices[int(e.part.key[0])]) for e in open_[:6] if e.part.kind is Kind.DEVICE]
    return Finding(
        code="E105",
        severity=Severity.WARNING,
        kind=FindingKind.DEVICE,
        cause=Cause.UNKNOWN,
        certainty=Certainty.UNKNOWN,
        message=f"probe {plan.probe.name} failed, and which is bad was not told: {', '.join(names)}",
        hosts=tuple(sorted({name.rpartition(":")[0] for name in devices})),
        devices=tuple(devices),
        evidence=(f"ended because {plan.why_ended}",),
        next="give more --budget, or free the devices that were busy",
    )


def part_text(fleet: Fleet, part: Part) -> str:
    """A part in words."""
    match part.kind:
        case Kind.DEVICE:
            return f"device {fleet.devices[int(part.key[0])]}"
        case Kind.LINK:
            return "link " + " - ".join(str(fleet.devices[int(number)]) for number in part.key)
        case Kind.CABLE:
            return f"cable {part.key[0]} - {part.key[1]}"
        case Kind.CUT:
            return f"what connects {_few([str(host) for host in part.key])} with the others"
        case _:
            return f"{part.kind.value} {part.key[0]}"


def _nothing(examination: Examination) -> Finding:
    tried = [
        f"{plan.probe.name}: {len(plan.results)} tests in {plan.round} rounds, {plan.why_ended}"
        for plan in examination.plans
    ]
    busy = sorted({str(examination.fleet.devices[n]) for plan in examination.plans for n in plan.busy})
    idle = [plan.probe.name for plan in examination.plans if not plan.results]
    return Finding(
        code="E108",
        severity=Severity.NOTICE,
        kind=FindingKind.NONE,
        cause=Cause.NONE,
        certainty=Certainty.OBSERVED,
        message=f"nothing bad was found in {examination.seconds:.0f} s"
        + (f"; no time for the probe {', '.join(idle)}" if idle else "")
        + (f"; busy and not examined: {', '.join(busy)}" if busy else ""),
        evidence=tuple(tried),
        next="",
    )
