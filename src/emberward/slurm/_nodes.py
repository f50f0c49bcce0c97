"""Nodes as SLURM sees them: which went down under a job, and what to write to those who can repair one.

[Note: lost nodes]
A node is left out for what happened to the machine alone: SLURM gets no answer from it, says that it rebooted
unexpectedly, or it has booted since the job that ran on it was seen last, later than a clock that was set explains. A
node that an administrator drained or set down is not: SLURM gives it to nobody, and takes it back when it is repaired.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from emberward.findings import Finding, host_down
from emberward.slurm._ask import Slurm

# sinfo(1): name, extended state (with * while it does not respond), reason.
_FORMAT = "%N|%T|%E"
CLOCK_S = 600.0
"""A boot time is the node's clock less its uptime: it moves by a second now and then, and by minutes when a clock that
was off is set. Twice the five minutes by which hosts' clocks may differ here."""
_NOT_RESPONDING = "Not responding"
_REBOOTED = "Node unexpectedly rebooted"
"""Reasons that slurmctld itself sets (ping_nodes.c and node_mgr.c of 22.05)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node: its state in SLURM's word, ``down*`` of one that does not respond, and the reason; None without any."""

    name: str
    state: str
    reason: str | None


def read_nodes(slurm: Slurm, names: Sequence[str]) -> tuple[Node, ...]:
    """Those nodes, by name. Blocks. Raises what `Slurm.ask` raises, and L120 for an answer of another form."""
    if not names:
        return ()
    said = slurm.ask("sinfo", "--noheader", "--Node", f"--nodes={','.join(names)}", f"--format={_FORMAT}")
    found = {}
    for line in filter(None, map(str.strip, said.splitlines())):
        parts = line.split("|", 2)
        if len(parts) != 3:
            raise slurm.not_understood("sinfo", line)
        name, state, reason = parts
        found[name] = Node(name=name, state=state, reason=None if reason in ("", "none") else reason)
    return tuple(found[name] for name in sorted(found))


def usable_nodes(slurm: Slurm, *, partition: str | None) -> tuple[str, ...]:
    """The nodes that SLURM may give to a job, by name, busy ones too. Blocks. Raises as `read_nodes`."""
    where = () if partition is None else (f"--partition={partition}",)
    said = slurm.ask("sinfo", "--noheader", "--Node", *where, "--format=%N|%T")
    found = set()
    for line in filter(None, map(str.strip, said.splitlines())):
        name, mark, state = line.partition("|")
        if not mark:
            raise slurm.not_understood("sinfo", line)
        if not state.startswith(("down", "drain", "fail", "error", "power", "unknown")):
            found.add(name)
    return tuple(sorted(found))


def read_boots(slurm: Slurm, names: Iterable[str]) -> dict[str, str]:
    """node -> when it booted, as SLURM says it; a node that has not told it yet is left out. Raises as `Slurm.ask`."""
    names = list(names)
    if not names:
        return {}
    said = slurm.ask("scontrol", "--oneliner", "show", "node", ",".join(names))
    found = {}
    for line in said.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if fields.get("NodeName") and fields.get("BootTime", "None") != "None":
            found[fields["NodeName"]] = fields["BootTime"]
    return found


def lost_nodes(before: Mapping[str, str], nodes: Sequence[Node], boots: Mapping[str, str]) -> tuple[Finding, ...]:
    """A finding for each node of the job that ran last, by `before`, that is lost. See [Note: lost nodes].

    `before`: node -> its boot time when the job was seen last; `boots`: the same now.
    """
    found = []
    for node in nodes:
        if node.name not in before:
            continue
        reason = node.reason or ""
        if node.state.endswith("*") and node.state.startswith("down"):
            found.append(_lost(node.name, f"does not answer SLURM: {node.state}, {reason or 'no reason'}"))
        elif reason.startswith((_NOT_RESPONDING, _REBOOTED)):
            found.append(_lost(node.name, f"was lost by SLURM: {node.state}, {reason}"))
        elif _has_booted(before[node.name], boots.get(node.name)):
            found.append(_lost(node.name, f"booted at {boots[node.name]}, while the job held it"))
    return tuple(found)


def _has_booted(before: str, now: str | None) -> bool:
    """Whether a node that booted at `before` has booted again, by SLURM's texts. See CLOCK_S."""
    try:
        return (
            now is not None and (datetime.fromisoformat(now) - datetime.fromisoformat(before)).total_seconds() > CLOCK_S
        )
    except ValueError:
        return False


def _lost(name: str, why: str) -> Finding:
    return host_down(
        name,
        why,
        evidence=(f"a job of this chain ran on {name} when it was seen last",),
        next=f"emberward slurm drain {name}   (or the ticket that it writes)",
    )


def ticket_text(host: str, reason: str, said: Mapping[str, object] | None) -> str:
    """What to write to the administrators when we may not drain the node ourselves. `said`: the finding on the host."""
    lines = [f"Please drain {host}: {reason}", "", f"    scontrol update NodeName={host} State=DRAIN Reason={reason!r}"]
    if said:
        evidence = said.get("evidence")
        lines += ["", f"{said.get('code')} {said.get('message')}"]
        lines += [f"  {line}" for line in (evidence if isinstance(evidence, list) else [])]
    return "\n".join(lines)
