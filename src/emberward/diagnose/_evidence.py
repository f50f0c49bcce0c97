"""Everything that was read about one incident, before anybody judges it."""

from dataclasses import dataclass, field

from emberward.diagnose._calls import RankFlight
from emberward.diagnose._frames import ProcessStacks
from emberward.diagnose._log_facts import LogFact, LogFactKind
from emberward.diagnose._ras_facts import RasReport
from emberward.diagnose._say import at_most_s, limit_s, still_s
from emberward.events import RankEnd, Trace
from emberward.findings import Cause, Finding, Severity, observed


@dataclass(slots=True, kw_only=True)
class Evidence:
    """One incident's dumps, stacks, logs and reports, joined by rank. `problems` are findings about the files.

    `absent`: ranks of the job whose dump cannot be used. `ends`: of ranks that ended or crashed, as their own files or
    a log tell.
    """

    label: str
    flights: dict[int, RankFlight] = field(default_factory=dict)
    stacks: list[ProcessStacks] = field(default_factory=list)
    facts: list[LogFact] = field(default_factory=list)
    ends: list[RankEnd] = field(default_factory=list)
    ras: list[RasReport] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    prior: list[Finding] = field(default_factory=list)
    problems: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    num_files: int = 0
    absent: set[int] = field(default_factory=set)

    @property
    def is_lasting(self) -> bool:
        """Whether the job stood still for longer than a pause: as a log or a recorder tells. The date
        of a file tells nothing of it."""
        flights = self.flights.values()
        still = still_s(flights)
        has_ended = any(fact.kind in (LogFactKind.TIMEOUT, LogFactKind.HEARTBEAT_LOST) for fact in self.facts)
        return has_ended or (still is not None and still >= limit_s(flights))

    @property
    def is_young(self) -> bool:
        """Whether the job cannot have stood still for longer than a pause: its files are no older."""
        most = at_most_s(self.flights.values())
        return not self.is_lasting and most is not None and most < limit_s(self.flights.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found that tells about a hang."""
        return not (self.flights or self.stacks or self.facts or self.ends or self.ras or self.traces or self.prior)


def file_problem(path: str, what: str, *, found: str, next_step: str, cause: Cause = Cause.CORRUPT_FILE) -> Finding:
    """A warning (H108) about a file that could not be used."""
    evidence = (f"found     {found}",)
    return observed(
        "H108", f"{path}: {what}", severity=Severity.WARNING, cause=cause, evidence=evidence, next=next_step
    )
