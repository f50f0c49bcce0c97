"""Hosts that take no part in a job any more: those that a fault of their own link or power named, and a person's.

[Note: leaving out a host]
A host is left out only for what its hardware did: when an attempt failed for a finding that names that host alone, cut
off (L112) or down (L113). A death never is enough, not even two in a row: a bug of the program kills the rank that it
meets, wherever that lies, and would cost one host after the other its place. Each supervisor judges by the same posts,
so that the host itself makes no other attempt while its peers make theirs without it. In a shared folder of posts the
finding is kept beside them: a start on that host is refused until somebody takes the file away.
"""

from collections.abc import Sequence
from pathlib import Path

from emberward.findings import ConfigError, Finding, Severity
from emberward.report import read_json, write_json
from emberward.runs import left_out_file
from emberward.supervise._act import SURE
from emberward.supervise._nodes import Node

NAMING = frozenset({"L112", "L113"})


def named_host(findings: Sequence[Finding]) -> Finding | None:
    """The finding for which a host is left out; None when no host alone was named. See [Note: leaving out a host]."""
    for finding in findings:
        is_sure = finding.severity is Severity.ERROR and finding.certainty in SURE
        if finding.code in NAMING and is_sure and len(finding.hosts) == 1:
            return finding
    return None


def keep_out(node: Node, finding: Finding) -> Path | None:
    """The file that keeps the named host out, now written; None where the posts lie in no folder. Raises OSError."""
    path = _file(node.mailbox, finding.hosts[0])
    if path is not None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, finding.to_json())
    return path


def require_part(host: str, *, excluded: Sequence[str], mailbox: str | None) -> None:
    """Raises ConfigError L114 when a person or an earlier finding left `host` out. Reads one file of the mailbox."""
    if host in excluded:
        raise ConfigError(
            "this host is left out",
            code="L114",
            where=f"--exclude {host}",
            expected="a host that takes part",
            found=host,
            next="start the command on the other hosts",
        )
    path = None if mailbox is None else _file(mailbox, host)
    said = None if path is None else read_json(path)
    if said is not None:
        raise ConfigError(
            "this host is left out",
            code="L114",
            where=str(path),
            expected="a host that takes part",
            found=f"{said.get('code')} {said.get('message')}",
            next=f"rm {path}   (once the host is repaired)",
        )


def _file(mailbox: str, host: str) -> Path | None:
    if mailbox.startswith(("http://", "https://")):
        return None
    return left_out_file(Path(mailbox), host)
