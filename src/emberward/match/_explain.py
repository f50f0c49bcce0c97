"""Verdicts and findings as text for people."""

from emberward.findings import Finding, Severity
from emberward.match._verdict import Outcome, Verdict

TITLE_WIDTH = 88
"""Column at which the bracket with certainty and assumption starts when the title is shorter."""

_TITLES = {"deadlock": "deadlock: ", "order_hazard": "order hazard: "}


def explain_finding(finding: Finding) -> str:
    """The finding as lines: what; where, for each rank; what was ruled out; the next step."""
    mark = finding.certainty.value
    title = f"{finding.code} {_TITLES.get(finding.kind.value, '')}{finding.message}"
    if finding.severity is not Severity.ERROR:
        mark = f"{finding.severity.value}, {mark}"
    lines = [f"{title.ljust(TITLE_WIDTH)}  [{mark}]"]
    lines += [f"  {line}" for line in finding.evidence]
    lines += [f"  not       {line}" for line in finding.ruled_out]
    if finding.next:
        lines.append(f"  next      {finding.next}")
    return "\n".join(lines)


def _summary(verdict: Verdict) -> str:
    size = f"{verdict.num_ranks} ranks, {verdict.num_events} events judged"
    match verdict.outcome:
        case Outcome.SAFE:
            return f"safe: every call ends ({size})"
        case Outcome.NEEDS_BUFFER if verdict.least_buffer_bytes is None:
            return f"safe only where sends are buffered; sizes are unknown, so is how much it takes ({size})"
        case Outcome.NEEDS_BUFFER:
            return f"safe only with {verdict.least_buffer_bytes} buffered bytes a channel or more ({size})"
        case Outcome.STUCK:
            return f"deadlock: the program stops before its end ({size})"
        case Outcome.WRONG:
            return f"wrong: calls that belong together do not fit ({size})"


def explain(verdict: Verdict) -> str:
    """The whole verdict: each finding, then one line of outcome, then what was assumed. No trailing newline."""
    parts = [explain_finding(finding) for finding in verdict.findings]
    parts.append(_summary(verdict))
    parts.append(f"assumed: {'; '.join(verdict.assumptions)}")
    return "\n".join(parts)
