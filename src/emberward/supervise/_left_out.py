"""Hosts that take no part in a job any more: those that a fault of their own link or power named, and a person's.

[Note: leaving out a host]
A host is left out only for what its hardware did: when an attempt failed for a finding that names that host alone, cut
off (L112) or down (L113). A death never is enough, not even two in a row: a bug of the program kills the rank that it
meets, wherever that lies, and would cost one host after the other its place. Each supervisor judges by the same posts,
so that the host itself makes no other attempt while its peers make theirs without it. In a shared folder of posts the
ledger keeps it (`emberward.runs`): a start on that host is refused while it is out.

[Note: a slow host]
Nothing is lost with a slow host but time, and a program may be what makes it slow. So it is no strike, makes room only
for a spare, and only when it is slow for longer than a restart costs. Its ranks keep their numbers: when they are slow
on the spare too, the program gives them more to do, and no other spare is spent on them.
"""

from collections.abc import Sequence
from pathlib import Path

from emberward.findings import ConfigError, Finding
from emberward.runs import read_record, strike, strike_of
from emberward.supervise._nodes import Node

NAMING = frozenset({"L112", "L113"})
SLOW = frozenset({"H143", "H144"})
"""A host that is slow, or whose link is: a spare may take its place, at a save. See [Note: a slow host]."""


def named_host(findings: Sequence[Finding]) -> Finding | None:
    """The finding for which a host is left out; None when no host alone was named. See [Note: leaving out a host]."""
    for finding in findings:
        if finding.code in NAMING and strike_of(finding) is not None:
            return finding
    return None


def slow_host(findings: Sequence[Finding]) -> Finding | None:
    """The finding for which a spare takes a host's place; None without one. See [Note: a slow host]."""
    return next((each for each in findings if each.code in SLOW and len(each.hosts) == 1), None)


def keep_out(node: Node, finding: Finding) -> Path | None:
    """The ledger's entry that keeps the named host out; None where the posts lie in no folder. Raises OSError."""
    place = _place(node.mailbox)
    return None if place is None else strike(place, finding, by=f"emberward run on {node.host}")


def require_part(host: str, *, excluded: Sequence[str], mailbox: str | None) -> None:
    """Raises ConfigError L114 when a person or an earlier finding left `host` out. Reads a ledger."""
    place = None if mailbox is None else _place(mailbox)
    out = None if place is None else read_record(place, host).out
    if host in excluded:
        where, found, next = f"--exclude {host}", host, "start the command on the other hosts"
    elif out is not None:
        where, found = str(out.path), out.why
        next = f"emberward doctor --admit {host} --runs {place}   (once the host is repaired)"
    else:
        return
    expected = "a host that takes part"
    raise ConfigError("this host is left out", code="L114", where=where, expected=expected, found=found, next=next)


def _place(mailbox: str) -> Path | None:
    return None if mailbox.startswith(("http://", "https://")) else Path(mailbox)
