"""The hosts beside each other before a start, and beside themselves when a run last worked: what differs.

[Note: the clock of a host]
A host tells its clock while it answers. Between the question and the answer lie `round_trip_s`; its offset from ours is
known to half of that. It is named from STEP_S on, beyond which a host that keeps time by NTP sets its clock at once.
"""

import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from emberward.doctor._probe import last_words
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.health import Skew, skews
from emberward.processes import ProcessTree

REACH_LIMIT_S = 30.0
STEP_S = 0.128
"""RFC 5905, section 10: the step threshold."""
MAX_NAMED = 6
MAX_AT_ONCE = 64
FACTS_MODULE = ("-m", "emberward.doctor.probe", "facts")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What a host told of itself: name -> value. `offset_s`: its clock less ours, give or take `round_trip_s` / 2."""

    facts: Mapping[str, str]
    offset_s: float
    round_trip_s: float

    def to_json(self) -> dict[str, Any]:
        """As it stands in documents and in a run's folder."""
        return {
            "facts": dict(self.facts),
            "offset_s": round(self.offset_s, 3),
            "round_trip_s": round(self.round_trip_s, 3),
        }

    @property
    def is_off(self) -> bool:
        """Whether its clock is certainly off. See [Note: the clock of a host]."""
        return abs(self.offset_s) - self.round_trip_s / 2 > STEP_S


def ask_hosts_facts(
    hosts: Sequence[str],
    command: Callable[[str], Sequence[str]],
    *,
    tree: ProcessTree,
    environment: Mapping[str, str],
) -> tuple[dict[str, HostFacts], list[Finding]]:
    """The facts of each host that tells some, and E107 for each on which nothing can be started.

    `command`: the argv that runs FACTS_MODULE on a host. Blocks, at most REACH_LIMIT_S for each MAX_AT_ONCE hosts.
    """

    def ask(host: str) -> HostFacts | Finding | None:
        words = tuple(command(host))
        began_unix, began_s = time.time(), time.monotonic()
        try:
            done = tree.run(words, environment=environment, timeout_s=REACH_LIMIT_S)
        except OSError as error:
            return _unreached(host, words, str(error))
        passed_s = time.monotonic() - began_s
        if done.code == 0:
            return _facts_of(done.out, began_unix, passed_s)
        said = last_words(done.errors) or ("no answer" if done.code is None else f"exit code {done.code}")
        return _unreached(host, words, said)

    if not hosts:
        return {}, []
    with ThreadPoolExecutor(max_workers=min(len(hosts), MAX_AT_ONCE)) as pool:
        answers = dict(zip(hosts, pool.map(ask, hosts), strict=True))
    return (
        {host: each for host, each in answers.items() if isinstance(each, HostFacts)},
        [each for each in answers.values() if isinstance(each, Finding)],
    )


def _facts_of(out: bytes, began_unix: float, passed_s: float) -> HostFacts | None:
    """What it told; None of a host that can start commands and has no Emberward, whose words mean nothing."""
    for line in reversed(out.decode("utf-8", "replace").splitlines()):
        try:
            said = json.loads(line)
            facts = {str(name): str(value) for name, value in said["facts"].items()}
            clock = float(said["clock_unix"])
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        return HostFacts(facts=facts, offset_s=clock - (began_unix + passed_s / 2), round_trip_s=passed_s)
    return None


def _unreached(host: str, words: Sequence[str], said: str) -> Finding:
    return Finding(
        code="E107",
        severity=Severity.ERROR,
        kind=Kind.LINK,
        cause=Cause.HOST_DOWN,
        certainty=Certainty.OBSERVED,
        message=f"nothing can be started on host {host}, which is left out",
        hosts=(host,),
        evidence=(said,),
        next=" ".join(words)[:300],
    )


def host_findings(asked: Mapping[str, HostFacts]) -> tuple[Finding, ...]:
    """E109 for hosts that differ from most of their peers, one finding for each set of hosts; and for clocks.

    Empty when all agree. Where no value has a majority nobody is named, and all of those hosts are listed.
    """
    by_hosts: dict[tuple[tuple[str, ...], bool], list[str]] = defaultdict(list)
    for each in skews({host: told.facts for host, told in asked.items()}):
        by_hosts[each.odd, each.has_majority].append(_row(each))
    for host, told in sorted(asked.items()):
        if told.is_off and len(asked) > 1:
            by_hosts[(host,), True].append(
                f"clock: {told.offset_s:+.1f} s from ours, give or take {told.round_trip_s / 2:.1f} s"
            )
    alike = _alike(asked)
    return tuple(_finding(hosts, known, rows, alike) for (hosts, known), rows in sorted(by_hosts.items()))


def _row(each: Skew[str]) -> str:
    return f"{each.name}: " + "; ".join(f"{value} on {_names(hosts)}" for value, hosts in each.values)


def _names(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:MAX_NAMED]) + (f" and {len(hosts) - MAX_NAMED} more" if len(hosts) > MAX_NAMED else "")


def _alike(asked: Mapping[str, HostFacts]) -> tuple[str, ...]:
    """The names of the facts that all hosts told alike."""
    everywhere = set.intersection(*(set(told.facts) for told in asked.values())) if asked else set()
    return tuple(sorted(everywhere - {each.name for each in skews({h: t.facts for h, t in asked.items()})}))


def _finding(hosts: tuple[str, ...], is_known: bool, rows: list[str], alike: tuple[str, ...]) -> Finding:
    what = ", ".join(row.partition(":")[0] for row in rows[:MAX_NAMED])
    more = f" and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    whose = (
        f"host{'s' * (len(hosts) > 1)} {_names(hosts)} differ{'s' * (len(hosts) == 1)} from the others"
        if is_known
        else f"hosts {_names(hosts)} are not alike"
    )
    return Finding(
        code="E109",
        severity=Severity.WARNING,
        kind=Kind.CONFIG,
        cause=Cause.VERSION_SKEW,
        certainty=Certainty.OBSERVED,
        message=f"{whose}: {what}{more}",
        hosts=hosts if is_known else (),
        evidence=tuple(rows[: 3 * MAX_NAMED]),
        ruled_out=(f"alike on all hosts: {', '.join(alike)}",) if alike else (),
        next="install the same on every host, or know why it differs; then start again",
    )


def changed_since(
    before: Mapping[str, Mapping[str, str]], asked: Mapping[str, HostFacts], *, attempt: str
) -> Finding | None:
    """E110: what each host told when `attempt` worked beside what it tells now, and what is ruled out.

    `before`: host -> name -> value. A host that was not there then is compared with one that was. None when `before`
    knows nothing. What only one of the two tells is no change.
    """
    if not before or not asked:
        return None
    rows: dict[str, list[str]] = defaultdict(list)
    same: set[str] = set()
    any_host = min(before)
    for host, told in sorted(asked.items()):
        old = before.get(host, before[any_host])
        for name in sorted(set(old) & set(told.facts)):
            if old[name] == told.facts[name]:
                same.add(name)
            else:
                rows[f"{name}: {old[name]} -> {told.facts[name]}"].append(host)
    new = sorted(set(asked) - set(before))
    lines = [*(f"host {host} was not part of it" for host in new[:MAX_NAMED])]
    lines += [f"{row} on {_names(hosts)}" for row, hosts in rows.items()]
    changed = {row.partition(":")[0] for row in rows}
    out = sorted(same - changed)
    names = ", ".join([*(["hosts"] if new else []), *sorted(changed)])
    return Finding(
        code="E110",
        severity=Severity.WARNING if lines else Severity.NOTICE,
        kind=Kind.CONFIG,
        cause=Cause.VERSION_SKEW if lines else Cause.NONE,
        certainty=Certainty.OBSERVED,
        message=f"since {attempt} worked: {names}" if lines else f"nothing that hosts tell has changed since {attempt}",
        hosts=tuple(sorted({host for hosts in rows.values() for host in hosts} | set(new))),
        evidence=tuple(lines[: 4 * MAX_NAMED]),
        ruled_out=(f"as it was: {', '.join(out)}",) if out else (),
        next="go back on one change at a time, or examine the machine: emberward doctor"
        if lines
        else "examine the machine: emberward doctor",
    )
