"""Incidents: disasters of real runs that can be replayed for real on this machine, each with its healthy twin."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emberward.findings import Cause, Finding, Severity

LIMIT_S = 110.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRunner:
    """Where an incident is replayed: its own folder, the environment of what it starts, who is told what happens.

    `on_wait` is called several times a second with what is waited for and for how many seconds. `limit_s` bounds each
    command of an incident.
    """

    folder: Path
    environment: Mapping[str, str]
    tell: Callable[[str], None]
    on_wait: Callable[[str, float], None] = lambda what, passed_s: None
    limit_s: float = LIMIT_S


class NoVerdict(Exception):
    """A command of an incident did not end in time; it says what was ended, and what it said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the verdict must be. `site` is the end of the culprit's file name, with its line where that is fixed.

    `severity`: what counts as the verdict, or in the twin as an alarm; what costs time and stops nothing is a warning.
    """

    codes: tuple[str, ...]
    causes: tuple[Cause, ...]
    culprit_ranks: tuple[int, ...] = ()
    site: str | None = None
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay gave: the findings, and the facts that had to hold and did not (empty when all did)."""

    findings: tuple[Finding, ...]
    broken_facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """A disaster. `replay` and `twin` start real threads or processes, block until they ended, and leave none behind.

    `seconds` is about what both take here, on 2 cores. `what` says in a few words what happened.
    """

    name: str
    what: str
    source: str
    story: str
    seconds: int
    expected: Expected
    replay: Callable[[IncidentRunner], Replayed]
    twin: Callable[[IncidentRunner], Replayed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Showing:
    """One replay, judged. `wrong` tells what is not as it must be; empty when the verdict is right."""

    incident: str
    is_twin: bool
    findings: tuple[Finding, ...]
    wrong: tuple[str, ...]
    seconds: float


def show(incident: Incident, theatre: IncidentRunner, *, is_twin: bool) -> Showing:
    """The incident, or its twin, replayed and judged. Blocks, at most the theatre's limit a command; see `Incident`."""
    began_s = time.monotonic()
    wrong: tuple[str, ...]
    try:
        replayed = (incident.twin if is_twin else incident.replay)(theatre)
    except NoVerdict as late:
        replayed, wrong = Replayed(findings=()), (str(late),)
    else:
        wrong = _alarms(incident.expected, replayed) if is_twin else _differences(incident.expected, replayed)
    return Showing(
        incident=incident.name,
        is_twin=is_twin,
        findings=replayed.findings,
        wrong=(*replayed.broken_facts, *wrong),
        seconds=time.monotonic() - began_s,
    )


def _verdicts(expected: Expected, replayed: Replayed) -> list[Finding]:
    counted = {Severity.ERROR, expected.severity}
    return [finding for finding in replayed.findings if finding.severity in counted]


def _alarms(expected: Expected, replayed: Replayed) -> tuple[str, ...]:
    alarms = _verdicts(expected, replayed)
    return tuple(f"the twin raised an alarm: {finding.code} {finding.message}" for finding in alarms)


def _differences(expected: Expected, replayed: Replayed) -> tuple[str, ...]:
    """How the first verdict departs from what was expected; empty when it does not."""
    errors = _verdicts(expected, replayed)
    if not errors:
        return (f"no {expected.severity.value} was found; expected {' or '.join(expected.codes)}",)
    first = errors[0]
    wrong = [f"a further {finding.severity.value}: {finding.code} {finding.message}" for finding in errors[1:]]
    if first.code not in expected.codes:
        wrong.append(f"expected {' or '.join(expected.codes)}, found {first.code}")
    if first.cause not in expected.causes:
        wanted = " or ".join(cause.value for cause in expected.causes)
        wrong.append(f"expected cause {wanted}, found {first.cause.value}")
    if first.culprit_ranks != expected.culprit_ranks:
        wrong.append(f"expected culprits {list(expected.culprit_ranks)}, found {list(first.culprit_ranks)}")
    if expected.site is not None and (first.site is None or expected.site not in first.site):
        wrong.append(f"expected a line of {expected.site}, found {first.site or 'none'}")
    return tuple(wrong)
