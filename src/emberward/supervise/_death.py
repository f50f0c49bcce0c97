"""The death that ended an attempt, for a person to read: as a finding, and as a text with its traceback."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emberward.diagnose import Ending, classify, first_endings
from emberward.diagnose import death_finding as judged_death
from emberward.events import RankEnd
from emberward.findings import Certainty, Finding, ranks_text
from emberward.report import printable

MAX_TRACEBACK_LINES = 60
_REPORT = re.compile(r"rank\s*: (\d+) \(local_rank: \d+\)\s*\n\s*exitcode\s*: (-?\d+) \(pid: (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecord:
    """What a launcher keeps of one rank after an attempt broke. Absent facts are None.

    `exit_code` is the one that the agent saw before it ended the other ranks (``multiprocessing/api.py``, torch 2.13),
    negative for a signal; `gone_unix` when the launcher saw the process gone; `failure` the rank's own failure file.
    `is_recorded`: a failure file, or a recorder, would have kept an exception. What the recorder tells of its end:
    `left_unix`, when its program returned, `alive_unix`, when it was last seen alive, and as in `RankEnd`.
    """

    rank: int
    pid: int | None = None
    host: str | None = None
    coordinates: Mapping[str, int] | None = None
    exit_code: int | None = None
    gone_unix: float | None = None
    failure: Mapping[str, Any] | None = None
    log: str | None = None
    log_tail: tuple[str, ...] = ()
    is_recorded: bool = True
    left_unix: float | None = None
    alive_unix: float | None = None
    has_data_end: bool = False
    needs: tuple[int, ...] = ()

    @property
    def ending(self) -> Ending | None:
        """What its end was; None while nobody saw that it ended."""
        failure = self.failure
        raised_unix = None if failure is None else failure.get("time_unix")
        known = (raised_unix, self.left_unix, self.gone_unix)
        words = None if failure is None else f"{failure.get('type', 'exception')}: {failure.get('message', '')}"
        return classify(
            RankEnd(
                rank=self.rank,
                pid=self.pid,
                host=self.host,
                exit_code=self.exit_code,
                words=words,
                is_gone=self.exit_code is not None or failure is not None,
                is_recorded=self.is_recorded,
                has_data_end=self.has_data_end,
                needs=self.needs,
                at_s=next((each for each in known if isinstance(each, int | float)), None),
                alive_s=self.alive_unix,
            )
        )


def parse_agent_report(text: str) -> dict[int, tuple[int, int]]:
    """rank -> (exit code, pid) of the failures in the agent's output; a negative code is a signal's number.

    Format: ``torch/distributed/elastic/multiprocessing/errors/__init__.py``, torch 2.13, ``_FAILURE_FORMAT_TEMPLATE``.
    """
    return {int(rank): (int(code), int(pid)) for rank, code, pid in _REPORT.findall(text)}


def first_death(records: Sequence[RankRecord]) -> tuple[RankRecord, Certainty] | None:
    """The rank whose end is the cause, and how sure that is; None when none failed. See `diagnose.first_endings`."""
    by_rank = {record.rank: record for record in records}
    firsts, certainty = first_endings([ending for record in records if (ending := record.ending) is not None])
    return (by_rank[firsts[0].end.rank], certainty) if firsts and firsts[0].end.rank is not None else None


def how_it_ended(record: RankRecord) -> str:
    """``killed by SIGKILL``, ``exit code 1``, or the exception's type and first line."""
    return "gone, nobody saw how" if record.ending is None else record.ending.text


def death_finding(
    record: RankRecord, certainty: Certainty, others: Sequence[RankRecord], *, can_resume: bool = False
) -> Finding:
    """The finding for the first death: the rank's own finding when it left one, else the judge's with its log.

    `can_resume`: the program is a recipe's run that has a save; of any other nobody knows how it goes on.
    """
    if record.failure is not None and isinstance(record.failure.get("finding"), Mapping):
        return Finding.from_json(record.failure["finding"])
    ending = record.ending
    assert ending is not None, "a rank that has not ended did not die"
    victims = [each for other in others if (each := other.ending) is not None and each.is_secondary]
    log = [line for line in (record.log, *record.log_tail[-3:]) if line]
    found = judged_death([ending], others=victims[:3], certainty=certainty, evidence=log)
    return replace(found, next=f"{found.next}; then resume from the last save") if can_resume else found


def folded(records: Sequence[RankRecord], culprit: RankRecord) -> list[str]:
    """One line for each different way in which the other ranks ended; ``same`` when it is the culprit's own way.

    Numbers, such as ports and addresses, do not make a way different.
    """

    def shape(record: RankRecord) -> str:
        return re.sub(r"\d+", "#", how_it_ended(record))

    groups: dict[str, list[RankRecord]] = {}
    for record in records:
        if record.rank != culprit.rank and record.ending is not None and record.ending.has_failed:
            groups.setdefault(shape(record), []).append(record)
    lines = []
    for key, members in groups.items():
        said = "same" if key == shape(culprit) else printable(how_it_ended(members[0]))
        lines.append(f"{ranks_text([member.rank for member in members])}: {said}")
    return lines


def death_text(records: Sequence[RankRecord], culprit: RankRecord, finding: Finding) -> str:
    """What a person reads: the other ranks folded first, then the culprit in a box, its traceback last."""
    facts = [f"host {culprit.host or 'unknown'}", f"pid {culprit.pid if culprit.pid is not None else 'unknown'}"]
    if culprit.coordinates:
        facts.append(" ".join(f"{axis}{at}" for axis, at in culprit.coordinates.items()))
    if culprit.exit_code is not None:
        facts.append(f"exit code {culprit.exit_code}")
    body = ["   ".join(facts)]
    if culprit.log is not None:
        body.append(f"log {culprit.log}")
    body.append(f"next {finding.next}")
    trace = culprit.failure.get("traceback") if culprit.failure is not None else None
    if isinstance(trace, str) and trace.strip():
        lines = trace.rstrip().splitlines()
        cut = [f"... {len(lines) - MAX_TRACEBACK_LINES} lines left out"] if len(lines) > MAX_TRACEBACK_LINES else []
        body += ["", *cut, *lines[-MAX_TRACEBACK_LINES:]]
    elif culprit.log_tail:
        body += ["", "last lines of its log:", *(f"  {line}" for line in culprit.log_tail)]
    title = printable(f"{finding.code} {finding.message}")
    box = [f"╭─ {title}", *(f"│ {printable(line)}".rstrip() for line in body), "╰" + "─" * min(len(title) + 2, 100)]
    return "\n".join([*folded(records, culprit), *box])
