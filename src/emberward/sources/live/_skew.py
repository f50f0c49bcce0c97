"""Ranks that run other versions or other code than their peers, by what their rings say of themselves. Pure."""

from collections import defaultdict
from collections.abc import Mapping

from emberward.diagnose import hang_finding, ranks_text, verb
from emberward.findings import Cause, Certainty, Finding, Severity
from emberward.health import skews
from emberward.sources.ring import RingView

MAX_NAMED = 6
TOLD = "all told"
"""The last fact that a rank writes (`emberward.sources._facts`)."""


def skew_findings(facts: Mapping[int, Mapping[str, str]], hosts: Mapping[int, str]) -> tuple[Finding, ...]:
    """H142 for the ranks that differ from most of their peers, one finding for each set of ranks; empty when all agree.

    `facts`: rank -> name -> value; what only some ranks tell is no difference. Where no value has a majority, nobody is
    named and all of those ranks are listed.
    """
    by_ranks: dict[tuple[tuple[int, ...], bool], list[str]] = defaultdict(list)
    for each in skews(facts):
        rows = sorted(each.values, key=lambda row: row[1])
        text = "; ".join(f"{value} on {ranks_text(ranks)}" for value, ranks in rows)
        by_ranks[each.odd, each.has_majority].append(f"{each.name}: {text}")
    return tuple(_finding(ranks, known, lines, hosts) for (ranks, known), lines in sorted(by_ranks.items()))


def _finding(ranks: tuple[int, ...], is_known: bool, lines: list[str], hosts: Mapping[int, str]) -> Finding:
    what = ", ".join(line.partition(":")[0] for line in lines[:MAX_NAMED])
    more = f" and {len(lines) - MAX_NAMED} more" if len(lines) > MAX_NAMED else ""
    whose = (
        f"{ranks_text(ranks)} {verb(ranks, 'runs', 'run')} something else than {verb(ranks, 'its', 'their')} peers"
        if is_known
        else f"{ranks_text(ranks)} do not run the same"
    )
    return hang_finding(
        "H142",
        f"{whose}: {what}{more}",
        cause=Cause.VERSION_SKEW,
        certainty=Certainty.OBSERVED,
        severity=Severity.WARNING,
        ranks=ranks if is_known else (),
        waiting=(),
        hosts=[hosts[rank] for rank in ranks if rank in hosts],
        evidence=lines[: 2 * MAX_NAMED],
        ruled_out=("packages that only some ranks load: those are not compared",),
        next_step="install the same versions and the same code on every host, then start again",
    )


class SkewWatch:
    """Sees the rings of a job and says once who runs something else. Waits until what is told stays the same."""

    def __init__(self) -> None:
        self._told: tuple[int, ...] = ()
        self._judged: tuple[int, ...] = ()
        self.facts: Mapping[str, str] | None = None
        """What this host's first rank has told, once all have."""

    @property
    def is_open(self) -> bool:
        """Whether ranks have told something that the next poll may judge."""
        return self._told != self._judged

    def poll(self, views: Mapping[int, RingView]) -> tuple[Finding, ...]:
        """The findings about ranks that have told all, when their number has not changed since the last poll."""
        told = tuple(sorted(view.pid or 0 for view in views.values() if TOLD in view.facts))
        is_whole, self._told = told == self._told and len(told) == len(views), told
        if not is_whole or told == self._judged:
            return ()
        self._judged = told
        self.facts = dict(views[min(views)].facts) if views else None
        hosts = {rank: view.host for rank, view in views.items() if view.host is not None}
        return skew_findings({rank: view.facts for rank, view in views.items()}, hosts)
