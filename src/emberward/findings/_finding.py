"""A conclusion of a judge, with one stable JSON form used by every command."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from emberward.findings._catalogue import require_code
from emberward.findings._words import Cause, Certainty, Kind, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleMember:
    """One wait of a cycle: `rank` sits in `op` at `site` and waits for the ranks in `waits_for`."""

    rank: int
    op: str
    site: str | None
    waits_for: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """The member as it stands in a finding's ``cycle`` list."""
        return {"rank": self.rank, "op": self.op, "site": self.site, "waits_for": list(self.waits_for)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingPhase:
    """Where in the run it happened. None means that the observer could not tell."""

    step: int | None = None
    micro_batch: int | None = None
    stage: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The phase as it stands in a finding."""
        return {"step": self.step, "micro_batch": self.micro_batch, "stage": self.stage}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a judge concludes.

    `culprit_pids` is filled, and `culprit_ranks` empty, when the evidence carries no rank. A cycle has no
    culprit: it lists every member. `site` is the culprit's current, extra or skipping line, never a waiter's.
    `next` is a command or a step that a person can take now.
    Findings about lost time (kinds stall, exposed, waste) have a cost and what a step would gain without it.
    `devices` (``host:3``) and `links` (pairs of them) are what the doctor found bad; other judges name none.
    """

    code: str
    severity: Severity
    kind: Kind
    cause: Cause
    certainty: Certainty
    message: str
    culprit_ranks: tuple[int, ...] = ()
    culprit_pids: tuple[int, ...] = ()
    waiting_ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    site: str | None = None
    cycle: tuple[CycleMember, ...] | None = None
    phase: FindingPhase = FindingPhase()
    evidence: tuple[str, ...] = ()
    ruled_out: tuple[str, ...] = ()
    next: str = ""
    cost_ms_per_step: float | None = None
    gain_ms_per_step: float | None = None
    devices: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The finding's stable JSON object; cost and gain stand where the kind has them, what was examined likewise."""
        cost = {"cost_ms_per_step": self.cost_ms_per_step, "gain_ms_per_step": self.gain_ms_per_step}
        examined = {"devices": list(self.devices), "links": [list(link) for link in self.links]}
        return {
            "code": self.code,
            "severity": self.severity.value,
            "kind": self.kind.value,
            "cause": self.cause.value,
            "certainty": self.certainty.value,
            "culprit_ranks": list(self.culprit_ranks),
            "culprit_pids": list(self.culprit_pids),
            "waiting_ranks": list(self.waiting_ranks),
            "hosts": list(self.hosts),
            "site": self.site,
            "cycle": None if self.cycle is None else [member.to_json() for member in self.cycle],
            "phase": self.phase.to_json(),
            "message": self.message,
            "evidence": list(self.evidence),
            "ruled_out": list(self.ruled_out),
            "next": self.next,
            **({} if self.cost_ms_per_step is None else cost),
            **(examined if self.devices or self.links else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Finding":
        """The finding that `to_json` wrote. Raises ValueError or KeyError when a word or key is unknown or missing."""
        cycle = data["cycle"]
        phase = data["phase"]
        return cls(
            code=data["code"],
            severity=Severity(data["severity"]),
            kind=Kind(data["kind"]),
            cause=Cause(data["cause"]),
            certainty=Certainty(data["certainty"]),
            culprit_ranks=tuple(data["culprit_ranks"]),
            culprit_pids=tuple(data["culprit_pids"]),
            waiting_ranks=tuple(data["waiting_ranks"]),
            hosts=tuple(data["hosts"]),
            site=data["site"],
            cycle=None
            if cycle is None
            else tuple(
                CycleMember(rank=m["rank"], op=m["op"], site=m["site"], waits_for=tuple(m["waits_for"])) for m in cycle
            ),
            phase=FindingPhase(step=phase["step"], micro_batch=phase["micro_batch"], stage=phase["stage"]),
            message=data["message"],
            evidence=tuple(data["evidence"]),
            ruled_out=tuple(data["ruled_out"]),
            next=data["next"],
            cost_ms_per_step=data.get("cost_ms_per_step"),
            gain_ms_per_step=data.get("gain_ms_per_step"),
            devices=tuple(data.get("devices", ())),
            links=tuple((a, b) for a, b in data.get("links", ())),
        )


def observed(
    code: str, message: str, *, cause: Cause = Cause.UNKNOWN, severity: Severity = Severity.ERROR, **others: Any
) -> Finding:
    """A finding on what was seen itself, of its code's kind; `others`: more of its members."""
    return Finding(
        code=code,
        severity=severity,
        kind=require_code(code).kind,
        cause=cause,
        certainty=Certainty.OBSERVED,
        message=message,
        **others,
    )


def exit_code_of(findings: Iterable[Finding]) -> int:
    """Exit code for a command that ended with `findings`: 1 when one is an error, else 0."""
    return 1 if any(finding.severity is Severity.ERROR for finding in findings) else 0
