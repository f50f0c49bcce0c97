"""What an examination says of each part: verdicts, and the evidence for whoever repairs the machine. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from emberward.doctor._examine import Examination
from emberward.doctor._faults import Kind, Part, Scope
from emberward.doctor._fleet import Fleet, Result, SetOutcome
from emberward.doctor._numbers import Figure
from emberward.doctor._plan import CONFIDENCE, Plan
from emberward.doctor._slow import Suspect
from emberward.doctor._tries import NEEDED_TRIES
from emberward.findings import Cause, Certainty

MAX_EVIDENCE = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A part that is bad, by which probes. `probability`: the lowest of theirs. `slow_by`: None when it fails."""

    part: Part
    kind: str
    devices: tuple[str, ...]
    hosts: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    certainty: Certainty
    probability: float
    probes: tuple[str, ...]
    slow_by: float | None
    scope: Scope | None
    rate: float | None
    evidence: tuple[str, ...]
    cause: Cause

    def to_json(self) -> dict[str, Any]:
        """The verdict as it stands in the document."""
        return {
            "kind": self.kind,
            "devices": list(self.devices),
            "hosts": list(self.hosts),
            "links": [list(link) for link in self.links],
            "certainty": self.certainty.value,
            "probability": round(self.probability, 4),
            "probes": list(self.probes),
            "slow_by": None if self.slow_by is None else round(self.slow_by, 4),
            "only_together": self.scope is not None and self.scope is not Scope.ALWAYS,
            "rate": self.rate,
            "evidence": list(self.evidence),
        }


def verdicts_of(examination: Examination) -> tuple[Verdict, ...]:
    """What is known to be bad, each part once, in the order of the fleet."""
    found: dict[Part, list[tuple[Plan, Suspect]]] = {}
    for plan in examination.plans:
        for suspect in plan.suspects():
            found.setdefault(suspect.part, []).append((plan, suspect))
    bad_hosts = {part.key[0] for part in found if part.kind is Kind.HOST}
    devices = examination.fleet.devices
    return tuple(
        _verdict(examination.fleet, part, seen)
        for part, seen in sorted(found.items())
        if not (part.kind is Kind.DEVICE and devices[int(part.key[0])].host in bad_hosts)
    )


def _verdict(fleet: Fleet, part: Part, seen: Sequence[tuple[Plan, Suspect]]) -> Verdict:
    kind, devices, hosts, links = named(fleet, part, [plan for plan, _ in seen])
    failing = [(plan, suspect) for plan, suspect in seen if suspect.slow is None]
    fault = _fault(failing[0][0], part) if failing else None
    slow = [suspect.slow for _, suspect in seen if suspect.slow is not None]
    is_constant = bool(slow) or (fault is not None and fault[1] > 0.9)
    return Verdict(
        part=part,
        kind=kind,
        devices=devices,
        hosts=hosts,
        links=links,
        certainty=Certainty.OBSERVED if is_constant else Certainty.INFERRED,
        probability=min(suspect.certainty for _, suspect in seen),
        probes=tuple(plan.probe.name for plan, _ in seen),
        slow_by=None if failing or not slow else max(figure.share for figure in slow),
        scope=None if fault is None else _seen_scope(part, fault[0], [plan for plan, _ in failing]),
        rate=None if fault is None else fault[1],
        evidence=tuple(line for plan, suspect in seen for line in _evidence(fleet, plan, suspect)),
        cause=_cause(kind, seen, part),
    )


def _seen_scope(part: Part, scope: Scope, plans: Sequence[Plan]) -> Scope | None:
    """The scope, where tests show it: a device that was never alone may fail there too."""
    if part.kind is Kind.DEVICE and scope is not Scope.ALWAYS:
        return scope if any(plan.belief.tries[int(part.key[0]), False] for plan in plans) else None
    return scope


def named(
    fleet: Fleet, part: Part, plans: Sequence[Plan]
) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Kind, devices, hosts and links of a part as a document names them.

    The device of a host that has no other is named with its host: which of the two it is cannot be told.
    """
    match part.kind:
        case Kind.DEVICE:
            device = fleet.devices[int(part.key[0])]
            is_only = sum(other.host == device.host for other in fleet.devices) == 1
            return "device", (str(device),), (device.host,) if is_only and len(fleet) > 1 else (), ()
        case Kind.HOST:
            return "host", (), (str(part.key[0]),), ()
        case Kind.SWITCH:
            below = sorted(host for host, path in fleet.switches.items() if part.key[0] in path)
            return f"{part.kind.value}", (), tuple(below), ()
        case Kind.CUT:
            return "switch", (), _behind(fleet, part), ()
        case Kind.LINK:
            a, b = (str(fleet.devices[int(number)]) for number in part.key)
            return "link", (), (), ((a, b),)
        case Kind.CABLE:
            pairs = {
                (str(fleet.devices[min(trial.devices)]), str(fleet.devices[max(trial.devices)]))
                for plan in plans
                for trial in plan.belief.failed_trials()
                if len(trial.devices) == 2 and {fleet.devices[number].host for number in trial.devices} == set(part.key)
            }
            return "link", (), tuple(map(str, part.key)), tuple(sorted(pairs))


def _behind(fleet: Fleet, part: Part) -> tuple[str, ...]:
    """The hosts of a cut's smaller side, as of those below a switch: without them the others work on. Of equal sides
    nothing tells one from the other, and both are named."""
    hosts = sorted({device.host for device in fleet.devices})
    side = sorted(map(str, part.key))
    other = [host for host in hosts if host not in side]
    smaller = min(side, other, key=len)
    return tuple(hosts if len(side) == len(other) else smaller)


def _fault(plan: Plan, part: Part) -> tuple[Scope, float] | None:
    """The likeliest scope and rate of a part that fails."""
    for cluster in plan.clusters(with_settled=False):
        for each in cluster.explanations:
            for fault in each.faults:
                if fault.part == part:
                    return fault.scope, fault.rate
    return None


def _involved(plan: Plan, part: Part) -> list[Result]:
    return [
        result
        for _, result in plan.results
        if result.outcome is not SetOutcome.BUSY
        and any(plan.belief.parts.exposure(part, scope, result.devices, result.links) > 0 for scope in Scope)
    ]


def _cause(kind: str, seen: Sequence[tuple[Plan, Suspect]], part: Part) -> Cause:
    if all(suspect.slow is not None for _, suspect in seen):
        return Cause.SLOW_LINK if kind in ("link", "switch") else Cause.SLOW_RANK
    if kind in ("link", "switch"):
        return Cause.LINK_DOWN
    words: Counter[Cause] = Counter()
    for plan, _ in seen:
        for result in _involved(plan, part):
            for number in result.failed:
                words[_cause_of(result.reports.get(number, ""))] += 1
    return words.most_common(1)[0][0] if words else Cause.UNKNOWN


def _cause_of(report: str) -> Cause:
    if "No space left" in report or report.startswith("wrote too much"):
        return Cause.DISK_FULL
    if "out of memory" in report:
        return Cause.OUT_OF_MEMORY
    for start, cause in (
        ("killed by SIGSEGV", Cause.SEGFAULT),
        ("killed by", Cause.KILLED),
        ("not ok", Cause.BIT_FLIP),
        ("no answer", Cause.DEVICE_STALL),
        ("host not reached", Cause.HOST_DOWN),
    ):
        if report.startswith(start):
            return cause
    return Cause.UNKNOWN


def set_text(fleet: Fleet, devices: Iterable[int]) -> str:
    """A set in a few words: ``gpubox:4,5,6  other:0``."""
    by_host: dict[str, list[int]] = {}
    for number in devices:
        device = fleet.devices[number]
        by_host.setdefault(device.host, []).append(device.index)
    parts = [f"{host}:{','.join(map(str, sorted(found)))}" for host, found in by_host.items()]
    return "  ".join(parts[:4]) + (f"  and {len(parts) - 4} hosts more" if len(parts) > 4 else "")


def percent(share: float) -> str:
    """``5.1%``."""
    return f"{100 * share:.1f}%"


def _figure_text(figure: Figure, unit: str) -> str:
    del unit
    return (
        f"{percent(figure.share)} worse than its peers in the median of {figure.count} rounds; "
        f"{percent(figure.limit)} would be beyond the noise"
    )


def _evidence(fleet: Fleet, plan: Plan, suspect: Suspect) -> list[str]:
    """What was tested with the part, most telling first: failures, then what passed beside it."""
    name = plan.probe.name
    if suspect.slow is not None:
        return [f"{name}: {_figure_text(suspect.slow, plan.numbers.unit)}"]
    counts: dict[tuple[int, ...], list[int]] = {}
    words: dict[tuple[int, ...], str] = {}
    for result in _involved(plan, suspect.part):
        row = counts.setdefault(result.devices, [0, 0])
        row[result.outcome is SetOutcome.FAIL] += 1
        if result.outcome is SetOutcome.FAIL:
            first = min(result.failed, default=result.devices[0])
            words.setdefault(result.devices, f"{fleet.devices[first]} {result.reports.get(first, '')}")
    lines = []
    for devices, (passes, fails) in sorted(counts.items(), key=lambda item: (-item[1][1], len(item[0]))):
        said = f" ({words[devices]})" if devices in words else ""
        lines.append(f"{name}: {set_text(fleet, devices)} failed {fails} of {passes + fails}{said}")
    return lines[:MAX_EVIDENCE]


def ruled_out(plan: Plan) -> tuple[str, ...]:
    """What the tests of one probe rule out, and by what."""
    fleet, lines = plan.fleet, []
    bad = {part for each in plan.suspects() for part in [each.part]}
    for number in range(len(fleet)):
        if Part(Kind.DEVICE, (number,)) in bad or number in plan.left_out:
            continue
        alone, together = plan.belief.tries[number, False], plan.belief.tries[number, True]
        if alone or together:
            said = [f"{alone} tries alone" if alone else "", f"{together} with others" if together else ""]
            lines.append(f"{plan.probe.name}: {fleet.devices[number]} passed {' and '.join(filter(None, said))}")
    return tuple(lines[:MAX_EVIDENCE]) + (
        (f"and {len(lines) - MAX_EVIDENCE} devices more",) if len(lines) > MAX_EVIDENCE else ()
    )


def sound_hosts(examination: Examination) -> dict[str, str]:
    """host -> by what it is shown to be sound: a soak after which a host may come back.

    Each probe must have passed on each of its devices, one of them together with another host's, without a failure or
    an open doubt, in NEEDED_TRIES tries at least: a fault in RAREST of them is then missed in MISS of all cases.
    """
    accused = {host for each in verdicts_of(examination) for host in each.hosts}
    accused |= {end.rpartition(":")[0] for each in verdicts_of(examination) for end in each.devices}
    accused |= {end.rpartition(":")[0] for each in verdicts_of(examination) for link in each.links for end in link}
    fleet, found = examination.fleet, {}
    for host in dict.fromkeys(device.host for device in fleet.devices):
        mine = [number for number, device in enumerate(fleet.devices) if device.host == host]
        tries, is_met = 0, False
        for plan in examination.plans:
            held = [result for _, result in plan.results if not set(mine).isdisjoint(result.devices)]
            passed = [result for result in held if result.outcome is SetOutcome.PASS]
            is_met |= any(fleet.devices[n].host != host for result in passed for n in result.devices)
            counts = [sum(result.tries for result in passed if n in result.devices) for n in mine]
            is_doubted = any(r.outcome is SetOutcome.FAIL and plan.convicted.isdisjoint(r.devices) for r in held)
            if is_doubted or not all(counts):
                break
            tries += min(counts)
        else:
            if host not in accused and is_met and tries >= NEEDED_TRIES:
                found[host] = f"{tries} tries passed, alone and with other hosts, in {len(examination.plans)} probes"
    return found


def document_of(examination: Examination) -> dict[str, Any]:
    """The document's keys beside its findings: every test, the verdicts, what is left open, the numbers."""
    fleet = examination.fleet
    tests, first = [], 0
    for plan in examination.plans:
        for round_, result in plan.results:
            tests.append(
                {
                    "round": first + round_,
                    "probe": plan.probe.name,
                    "set": [str(fleet.devices[number]) for number in result.devices],
                    "outcome": result.outcome.value,
                    "seconds": round(result.seconds, 3),
                    "value": result.value,
                    "unit": result.unit,
                    "members": {str(fleet.devices[n]): text for n, text in result.reports.items()},
                }
            )
        first += plan.round
    return {
        "verdicts": [verdict.to_json() for verdict in verdicts_of(examination)],
        "tests": tests,
        "open": [_open_json(plan, each) for plan in examination.plans for each in plan.open_parts()],
        "busy": sorted({str(fleet.devices[n]) for plan in examination.plans for n in plan.busy}),
        "ruled_out": [line for plan in examination.plans for line in ruled_out(plan)],
        "numbers": [numbers_of(plan) for plan in examination.plans if plan.numbers.raw],
        "probes": [
            {"name": plan.probe.name, "rounds": plan.round, "tests": len(plan.results), "ended": plan.why_ended}
            for plan in examination.plans
        ],
        "not_tried": list(examination.untried),
        "least_budget_s": examination.least_budget_s,
        "devices": [str(device) for device in fleet.devices],
        "confidence": CONFIDENCE,
        "seconds": round(examination.seconds, 2),
        "left_behind": examination.left_behind,
    }


def _open_json(plan: Plan, suspect: Suspect) -> dict[str, Any]:
    kind, devices, hosts, links = named(plan.fleet, suspect.part, [plan])
    return {
        "kind": kind,
        "devices": list(devices),
        "hosts": list(hosts),
        "links": [list(link) for link in links],
        "probability": round(suspect.certainty, 4),
        "probe": plan.probe.name,
        "why": plan.why_ended,
    }


def numbers_of(plan: Plan) -> dict[str, Any]:
    """Noise floor, each device's figure, and the link matrix of one probe."""
    fleet, numbers = plan.fleet, plan.numbers

    def row(figure: Figure) -> dict[str, Any]:
        said = "slow" if figure.is_slow else "open" if figure.is_open else "within noise"
        return {"slow_by": round(figure.share, 4), "limit": round(figure.limit, 4), "rounds": figure.count, "is": said}

    noise = numbers.noise()
    return {
        "probe": plan.probe.name,
        "unit": numbers.unit,
        "noise_floor": None if noise is None else round(noise, 4),
        "devices": {str(fleet.devices[n]): row(figure) for n, figure in sorted(numbers.devices().items())},
        "rows": {str(fleet.devices[n]): row(figure) for n, figure in sorted(numbers.ends().items())},
        "cells": [
            {"link": [str(fleet.devices[n]) for n in pair], "value": _median(numbers.raw[pair]), **row(figure)}
            for pair, figure in sorted(numbers.cells().items())
        ],
    }


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
