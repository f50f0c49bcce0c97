"""The incident card: one finding in the words that terminal, JSON and page share.

[Note: the card's rows]
What happened, who did it and who waits, why we say so, what it is not, how sure, what to do, what it costs, what
changed since the last good attempt, whether it was seen before. A row without facts is left out, but for who: nobody is
named without evidence, and the card says so.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from emberward.findings import CATALOGUE, PROGRAM, Certainty, Finding, Kind, as_typed, ranks_text
from emberward.report._duration import duration_text
from emberward.report._findings import END_TO_COME
from emberward.report._fit import fit
from emberward.report._folder import RunFolder
from emberward.report._read import JsonObject, read_lines
from emberward.report._state import STOPPING

MAX_NAMED = 8
"""Culprits that are named with their host and place, one line each."""
MAX_LINES = 8
"""Lines of one row."""
MAX_SIBLINGS = 20
"""Runs of the same name, the newest first, in which the same finding is looked for."""
LABEL_WIDTH = 9
_IN = re.compile(r", in \d+ s(?=, unless)")
"""What an announcement says beside the moment: it holds as long as the moment is that of the reader."""
MOMENT = re.compile(r"at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC")
"""A moment to come as cards have it: a view that goes on counts down to it."""
STAGES = {"F": "forward", "B": "backward", "I": "backward of the inputs", "W": "backward of the weights"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFacts:
    """What a card takes from the run. `ranks`: the rank files by rank. Absent facts are None."""

    ranks: Mapping[int, JsonObject] = field(default_factory=dict)
    num_ranks: int | None = None
    at_risk_steps: int | None = None
    saved_step: int | None = None
    step_s: float | None = None
    lost_hours: float = 0.0
    changed: tuple[str, ...] = ()
    by_itself: tuple[str, ...] = ()
    """What will happen if nobody does anything, and how to stop it."""
    is_over: bool = False
    """Whether the attempt ended and did not reach its goal: its processes are gone."""
    program: str = PROGRAM
    """What the reader types for the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A finding for people. `rows`: label and lines, in the order in which they are read."""

    code: str
    severity: str
    title: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    def to_json(self) -> JsonObject:
        """The card as it stands in a command's JSON document."""
        return {
            "code": self.code,
            "severity": self.severity,
            "title": self.title,
            **{label: list(lines) for label, lines in self.rows},
        }

    def text(self, *, width: int | None = None) -> str:
        """The card as lines: a head, then label and text. Words that do not fit go on below, indented."""
        lines = [f"{self.severity.upper()}  {self.code}  {self.title}"]
        for label, texts in self.rows:
            for number, text in enumerate(texts):
                head = f"  {label if number == 0 else '':<{LABEL_WIDTH}} "
                lines.append(fit(head + text, width) if width is not None else head + text)
        return "\n".join(lines)


def card_of(finding: Finding, facts: CardFacts, *, seen_before: Sequence[str] = ()) -> Card:
    """The card of a finding. See [Note: the card's rows]. Pure."""
    entry = CATALOGUE.get(finding.code)
    rows = {
        "what": _what(finding),
        "who": _who(finding, facts),
        "why": _bounded(finding.evidence),
        "not": _bounded(finding.ruled_out),
        "certainty": (_certainty(finding),),
        "do": _to_do(finding, facts),
        "cost": _cost(finding, facts),
        "changed": _bounded(facts.changed),
        "seen": _bounded(seen_before),
    }
    return Card(
        code=finding.code,
        severity=finding.severity.value,
        title=finding.kind.value if entry is None else entry.title,
        rows=tuple((label, lines) for label, lines in rows.items() if lines),
    )


def _bounded(lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) <= MAX_LINES:
        return tuple(lines)
    return (*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more")


def _what(finding: Finding) -> tuple[str, ...]:
    at = finding.phase
    parts = [] if at.step is None else [f"step {at.step}"]
    parts += [] if at.micro_batch is None else [f"micro-batch {at.micro_batch}"]
    parts += [] if at.stage is None else [STAGES.get(at.stage, at.stage)]
    return (finding.message, *([f"in {', '.join(parts)}"] if parts else []))


def _place(rank: int, facts: CardFacts) -> str:
    """``rank 3 (node-05, pp 0 dp 1 tp 1)``."""
    known = facts.ranks.get(rank) or {}
    at = known.get("coordinates") or {}
    inside = [str(known["host"])] if known.get("host") is not None else []
    inside += [" ".join(f"{axis} {index}" for axis, index in at.items())] if at else []
    return f"rank {rank}" + (f" ({', '.join(inside)})" if inside else "")


def _who(finding: Finding, facts: CardFacts) -> tuple[str, ...]:
    lines: list[str] = []
    if finding.cycle:
        for member in finding.cycle[:MAX_NAMED]:
            at = "" if member.site is None else f" at {member.site}"
            waits = ranks_text(member.waits_for) if member.waits_for else "nobody"
            lines.append(f"{_place(member.rank, facts)} in {member.op}{at}, waits for {waits}")
        if len(finding.cycle) > MAX_NAMED:
            lines.append(f"and {len(finding.cycle) - MAX_NAMED} more members of the cycle")
    at = "" if finding.site is None else f" at {finding.site}"
    if 0 < len(finding.culprit_ranks) <= MAX_NAMED:
        lines += [_place(rank, facts) + at for rank in finding.culprit_ranks]
    elif finding.culprit_ranks:
        lines.append(ranks_text(finding.culprit_ranks) + at)
    elif finding.culprit_pids:
        lines.append(ranks_text(finding.culprit_pids, noun="process") + at)
    hosts = [host for host in finding.hosts if not any(host in line for line in lines)]
    if hosts:
        lines.append(f"on {', '.join(hosts[:MAX_NAMED])}")
    if not lines:
        lines.append("no rank can be named" + ("" if finding.site is None else f"; the line is {finding.site}"))
    if finding.waiting_ranks:
        number = len(finding.waiting_ranks)
        lines.append(f"{number} {'waits' if number == 1 else 'wait'}: {ranks_text(finding.waiting_ranks)}")
    return tuple(lines)


def _to_do(finding: Finding, facts: CardFacts) -> tuple[str, ...]:
    lines = [as_typed(line, facts.program) for line in finding.next.splitlines() if line.strip()]
    if facts.is_over and finding.kind in STOPPING and finding.kind is not Kind.CRASH:
        where = "from the beginning, for it has no save" if facts.saved_step is None else "from the last save"
        again = f"the attempt is over: the same command goes on {where}"
        # What a program does wrong it will do again; what was done to a process is over.
        is_program = finding.kind in (Kind.MISMATCH, Kind.MISSING, Kind.DEADLOCK)
        return (*lines, again) if is_program else (again, *(f"said while it ran: {line}" for line in lines))
    return (*lines, *(as_typed(line, facts.program) for line in facts.by_itself))


def by_itself_of(standing: Sequence[Finding], worst: Finding, *, run: str) -> tuple[str, ...]:
    """What was announced for the finding `worst` (L115), in the words in which it was, and how to stop that.

    `run`: how the run is named in a command.
    """
    for each in reversed(standing):
        said, of_it, _ = each.message.partition(f": {worst.code}")
        if each.code == END_TO_COME and of_it:
            return (f"by itself, {_IN.sub('', said)}", *each.next.replace(" RUN ", f" {run} ").splitlines())
    return ()


def counted_down(line: str, *, now_unix: float) -> str:
    """A line of a card, its moment to come as the seconds until then."""

    def left(found: re.Match[str]) -> str:
        seconds = moment_unix(found) - now_unix
        return f"in {duration_text(seconds)}" if seconds > 0 else "now"

    return MOMENT.sub(left, line)


def moment_unix(found: re.Match[str]) -> float:
    """The moment that `MOMENT` found, in seconds since 1970."""
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()


def _certainty(finding: Finding) -> str:
    meaning = {
        Certainty.PROVED: "follows from the program",
        Certainty.OBSERVED: "seen, not concluded",
        Certainty.INFERRED: "the best explanation of what was seen",
        Certainty.UNKNOWN: "the evidence does not tell",
    }
    return f"{finding.certainty.value}: {meaning[finding.certainty]}"


def _cost(finding: Finding, facts: CardFacts) -> tuple[str, ...]:
    lines = []
    if finding.waiting_ranks and facts.num_ranks and finding.kind in STOPPING:
        stopped = len(set(finding.waiting_ranks) | set(finding.culprit_ranks))
        is_all = stopped == facts.num_ranks
        lines.append(
            f"none of {stopped} ranks trains" if is_all else f"{stopped} of {facts.num_ranks} ranks do not train"
        )
    if facts.at_risk_steps:
        took = "" if facts.step_s is None else f", {duration_text(facts.at_risk_steps * facts.step_s)} of work"
        since = "the start" if facts.saved_step is None else f"the save of step {facts.saved_step}"
        count = "1 step" if facts.at_risk_steps == 1 else f"{facts.at_risk_steps} steps"
        lines.append(f"{count} since {since} would be done again{took}")
    if facts.lost_hours > 0:
        lines.append(f"{duration_text(facts.lost_hours * 3600)} lost in this run so far")
    return tuple(lines)


def read_seen_before(folder: RunFolder, finding: Finding) -> tuple[str, ...]:
    """Earlier findings of the same code with the same rank, host or line: in earlier attempts and in runs of this name.

    The newest run first, at most MAX_SIBLINGS of them. Reads only.
    """
    found: list[str] = []
    for other in _siblings(folder):
        for line in read_lines(other.findings):
            if line.get("code") != finding.code or _is_same(line, finding, is_own=other.path == folder.path):
                continue
            shared = _shared(line, finding)
            if shared is None:
                continue
            step = (line.get("phase") or {}).get("step") if isinstance(line.get("phase"), dict) else None
            at = "" if step is None else f", step {step}"
            found.append(f"{other.name}/{other.id}, attempt {line.get('attempt', 1)}{at}: {shared}")
    return tuple(dict.fromkeys(found))


def _siblings(folder: RunFolder) -> list[RunFolder]:
    try:
        others = [path for path in folder.path.parent.iterdir() if path.is_dir() and path != folder.path]
    except OSError:
        others = []
    # A run's id begins with its time.
    newest = sorted(others, key=lambda path: path.name, reverse=True)[:MAX_SIBLINGS]
    return [folder, *(RunFolder(path=path) for path in newest)]


def _is_same(line: JsonObject, finding: Finding, *, is_own: bool) -> bool:
    """Whether a line of the run's own file is the finding itself, and no earlier one."""
    return is_own and finding.message.endswith(str(line.get("message")))


def _shared(line: JsonObject, finding: Finding) -> str | None:
    """What an earlier finding has in common with this one; None when nothing."""
    hosts = set(finding.hosts).intersection(h for h in line.get("hosts") or () if isinstance(h, str))
    ranks = set(finding.culprit_ranks).intersection(r for r in line.get("culprit_ranks") or () if isinstance(r, int))
    parts = [ranks_text(sorted(ranks))] if ranks else []
    parts += [f"on {', '.join(sorted(hosts))}"] if hosts else []
    if finding.site is not None and line.get("site") == finding.site:
        parts.append(f"at {finding.site}")
    return "the same " + ", ".join(parts) if parts else None
