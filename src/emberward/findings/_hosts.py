"""The finding on a host that is down, which SLURM, the nodes' posts and the launcher's own questions may show."""

from collections.abc import Sequence

from emberward.findings._finding import Finding, observed
from emberward.findings._words import Cause, Severity


def host_down(
    host: str,
    why: str,
    *,
    next: str,
    evidence: Sequence[str] = (),
    ruled_out: Sequence[str] = (),
    severity: Severity = Severity.ERROR,
    ranks: Sequence[int] = (),
    waiting_ranks: Sequence[int] = (),
) -> Finding:
    """L113: `host` and `why`, the rest of a sentence. `ranks` ran on it; `next` is what a person does."""
    return observed(
        "L113",
        f"host {host} {why}",
        severity=severity,
        cause=Cause.HOST_DOWN,
        culprit_ranks=tuple(ranks),
        waiting_ranks=tuple(waiting_ranks),
        hosts=(host,),
        evidence=tuple(evidence),
        ruled_out=tuple(ruled_out),
        next=next,
    )
