"""The findings of a run's folder: which stand, which are over: the job went on, or a later attempt got over them. Each
is said once: what stands again is not told as over too."""

from collections.abc import Sequence
from dataclasses import replace

from emberward.findings import Finding, Kind, Severity, is_over
from emberward.report._folder import RunFolder
from emberward.report._read import JsonObject, read_lines
from emberward.report._state import STOPPING

END_TO_COME = "L115"
"""What was announced is past when the run has ended."""
_WITHOUT_SUCCESS = ("failed", "killed")
_SEVERITIES = (Severity.NOTICE, Severity.WARNING, Severity.ERROR)


def read_findings(
    folder: RunFolder, starts: Sequence[JsonObject], outcome: str | None
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that stand, and those of attempts that a later one has got over, by doing well or by running on.

    `starts`: the start lines of the attempts; `outcome`: that of the last one. What was said of an earlier attempt
    names it. A wait that was a notice alone is past where the run ended well, or an error tells why it did not.
    """
    last = max((start["attempt"] for start in starts if isinstance(start.get("attempt"), int)), default=None)
    standing: list[Finding] = []
    recovered: list[Finding] = []
    of_earlier: dict[Finding, int] = {}
    for line in read_lines(folder.findings):
        try:
            finding = Finding.from_json(line)
        except (KeyError, TypeError, ValueError):
            continue
        attempt = line.get("attempt")
        is_past = isinstance(attempt, int) and last is not None and attempt < last
        is_got_over = is_past and outcome not in _WITHOUT_SUCCESS
        of_earlier.pop(finding, None)
        if is_past and isinstance(attempt, int):
            of_earlier[finding] = attempt
        over = [each for each in standing if not is_past and is_over(each, finding)]
        standing = [each for each in standing if each not in over]
        for each in over:
            _add(recovered, each)
        _add(recovered if is_got_over else standing, finding)
    if outcome is not None:
        standing = [each for each in standing if each.code != END_TO_COME]
    waits = [each for each in standing if each.severity is Severity.NOTICE and each.kind is Kind.HANG]
    if outcome == "done" or (outcome is not None and any(each.severity is Severity.ERROR for each in standing)):
        standing = [each for each in standing if each not in waits]
    for each in waits if outcome == "done" else ():
        _add(recovered, each)
    again = {_accused(each) for each in standing}
    past = [each for each in recovered if _accused(each) not in again]

    def told(finding: Finding) -> Finding:
        number = of_earlier.get(finding)
        return finding if number is None else replace(finding, message=f"in attempt {number}, {finding.message}")

    return tuple(map(told, standing)), tuple(map(told, past))


def _accused(finding: Finding) -> tuple[object, ...]:
    """What makes a finding the same as one that is over: that it came again is told by its card, as seen before."""
    named = (finding.culprit_ranks, tuple(member.rank for member in finding.cycle or ()))
    return (finding.code, *named) if any(named) else (finding.code, finding.message)


def _add(found: list[Finding], new: Finding) -> None:
    """Adds a finding in place of the same one that was said before: as a notice, say, until it was sure."""
    place = next((number for number, each in enumerate(found) if _subject(each) == _subject(new)), None)
    if place is None:
        found.append(new)
    elif _SEVERITIES.index(new.severity) >= _SEVERITIES.index(found[place].severity):
        found[place] = new


def _subject(finding: Finding) -> tuple[object, ...]:
    """What makes two findings the same: what is said of whom. Of nobody, only the same words say the same."""
    ranks = (finding.culprit_ranks, finding.culprit_pids, finding.waiting_ranks, finding.cycle)
    return (finding.code, finding.cause, *ranks, finding.site if any(ranks) else finding.message)


def telling_finding(findings: Sequence[Finding], *, stands_still: bool) -> Finding | None:
    """The finding that a card is of: the worst; of a run that stands still else the last notice that tells who may.

    A rank that sleeps or polls may go on by itself, and is no alarm; once the run stands still it is what is known.
    """
    worst = worst_finding(findings)
    if worst is not None or not stands_still:
        return worst
    return next((each for each in reversed(findings) if each.kind in STOPPING), None)


def worst_finding(findings: Sequence[Finding]) -> Finding | None:
    """The finding of the highest severity, the last of those that were said; None without a warning or an error."""
    loud = [finding for finding in findings if finding.severity is not Severity.NOTICE]
    return max(reversed(loud), key=lambda finding: _SEVERITIES.index(finding.severity), default=None)
