"""The watcher's program: looks at the ranks of one attempt and says what it finds, one JSON object a line.

    python -m emberward.supervise.watcher RING_FOLDER LAG_FOLDER [MAILBOX HOST ADDRESS AGREED PORT]

It reads facts on its standard input, ``{"exits": {"PID": CODE}}`` and ``{"conclude": true}``, and ends with that
input. Each line that it writes has ``findings``, ``resolved``, ``done`` (the last word after ``conclude``) and after
each snapshot ``progress`` (rank: what of it went on). A line without findings says that it is alive.
See [Note: the watcher's fate].
"""

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from emberward.findings import Finding, Kind, Severity
from emberward.report import RunFolder, events_beside
from emberward.sources.live import Watcher, WatchReport, resumed_finding
from emberward.sources.ring import find_rings
from emberward.supervise._agreement import NOTHING, Agreed
from emberward.supervise._lag import LagLog
from emberward.supervise._losses import LossLog
from emberward.supervise._node_agent import NodeAgent
from emberward.supervise._nodes import Node
from emberward.supervise._rings import rank_of
from emberward.supervise._watching import JsonLines

POLL_S = 1.0


def line_of(
    report: WatchReport, *, is_done: bool = False, told_elsewhere: Sequence[str] = (), agent: NodeAgent | None = None
) -> bytes:
    """A report as one line. `told_elsewhere`: codes that another host tells people."""
    errors = [finding for finding in report.resolved if finding.severity is Severity.ERROR]
    # A verdict that a better one on the same ranks replaces does not say that the job goes on.
    judged = {rank for finding in report.findings for rank in (*finding.culprit_ranks, *finding.waiting_ranks)}
    lasting = [
        finding
        for finding in errors
        if finding.kind is not Kind.CRASH and not judged & {*finding.culprit_ranks, *finding.waiting_ranks}
    ]
    value = {
        "findings": [finding.to_json() for finding in (*report.findings, *map(resumed_finding, lasting))],
        "resolved": [finding.to_json() for finding in report.resolved],
        "done": is_done,
    }
    if report.snapshot is not None:
        value["progress"] = dict(report.progress)
    if agent is not None:
        value |= {"agreed": agent.agreed.to_json(), "is_next": agent.next is not None, "port": agent.port}
    if told_elsewhere:
        value["told_elsewhere"] = list(told_elsewhere)
    return json.dumps(value).encode() + b"\n"


def with_events(finding: Finding, folder: RunFolder) -> Finding:
    """The finding; one of slower steps with what the folder tells of the steps around their first. Reads files."""
    if finding.code != "P104" or finding.phase.step is None:
        return finding
    beside = [f"beside it: {each}" for each in events_beside(folder, finding.phase.step)]
    return replace(finding, evidence=(*finding.evidence, *beside))


def main(folder: Path, lag: Path, node: Node | None) -> int:
    """Watches until the input closes or the last word is asked for; the exit code."""
    told, exits = JsonLines(0), dict[int, int]()
    watcher = Watcher(folder)
    agent = None if node is None else NodeAgent(node)
    losses = LossLog(folder, RunFolder(path=lag.parent))
    losses.start()
    log = LagLog(lag, socket.gethostname() if node is None else node.host)
    while not told.is_closed:
        began_s = time.monotonic()
        report = watcher.poll(exits)
        found = [with_events(finding, RunFolder(path=lag.parent)) for finding in report.findings]
        report = replace(report, findings=(*found, *losses.new_findings()))
        log.take(watcher.new_rows())
        if agent is not None:
            ranks = [rank for ring in find_rings(folder) if (rank := rank_of(ring)) is not None]
            report = agent.step(report, ranks=ranks, facts=watcher.facts, steps=watcher.steps())
        os.write(1, line_of(report, told_elsewhere=() if agent is None else agent.told_elsewhere, agent=agent))
        facts = told.wait(max(POLL_S - (time.monotonic() - began_s), 0.0))
        exits |= {int(pid): code for fact in facts for pid, code in (fact.get("exits") or {}).items()}
        if any(fact.get("conclude") for fact in facts):
            os.write(1, line_of(watcher.end(exits), is_done=True))
            log.take(watcher.new_rows())
            break
    losses.end()
    watcher.close()
    if agent is not None:
        agent.leave()
    return 0


def node_of(words: Sequence[str]) -> Node | None:
    """This host's place among several; None without one."""
    if not words:
        return None
    mailbox, host, address, agreed, port = words
    entry = Agreed.from_json(json.loads(agreed)) or NOTHING
    return Node(mailbox=mailbox, host=host, address=address, agreed=entry, port=json.loads(port))


if __name__ == "__main__":
    try:
        code = main(Path(sys.argv[1]), Path(sys.argv[2]), node_of(sys.argv[3:]))
    except BrokenPipeError:
        code = 0
    # Not sys.exit: nothing that a snapshot left behind may keep this process.
    os._exit(code)
