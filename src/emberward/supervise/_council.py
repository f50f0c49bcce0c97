"""A supervisor's side of what the hosts of a job agree on: which attempt is next, and who takes part in it."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from emberward.findings import Finding
from emberward.supervise._agreement import Agreed
from emberward.supervise._left_out import named_host
from emberward.supervise._node_agent import NodeAgent
from emberward.supervise._nodes import Node
from emberward.supervise._probe import ProbedLinks
from emberward.supervise._restart import Restart
from emberward.supervise._signals import SignalDesk

AGREE_LIMIT_S = 600.0
"""Hosts whose ranks still wait for the dead end their attempt later: by a time-out of the job's own, 10 minutes."""
POLL_S = 1.0


class Council:
    """One host's place among the hosts of a job, from one attempt to the next. See `_agreement.py`."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._next: Agreed | None = None

    @contextlib.contextmanager
    def _agent(self) -> Iterator[NodeAgent]:
        """Speaks for this host while no attempt runs."""
        with contextlib.closing(ProbedLinks(self.node.address, self.node.port, tries=False)) as links:
            yield NodeAgent(self.node, links=links)

    def join(self) -> None:
        """Learns at which attempt the job is; whoever was left out of it before and starts anew was let in again."""
        with self._agent() as agent:
            agent.parley()
            self.node = replace(self.node, agreed=replace(agent.agreed, out={}))

    def hear(self, said: Mapping[str, Any]) -> None:
        """What the watcher's agent says of the agreement, if this line has anything of it."""
        if isinstance(port := said.get("port"), int):
            self.node = replace(self.node, port=port)
        heard = Agreed.from_json(said.get("agreed"))
        if heard is not None and said.get("is_next") is True:
            self._next = heard
        elif heard is not None and heard.key == self.node.agreed.key:
            self.node = replace(self.node, agreed=heard)

    @property
    def due(self) -> Finding | None:
        """For what this host's attempt is to end: the others left a host out and begin the next."""
        return None if self._next is None else next(iter(_new(self.node.agreed, self._next)), None)

    def next_attempt(
        self, findings: Sequence[Finding], rerun: Restart, desk: SignalDesk
    ) -> tuple[Restart, tuple[Finding, ...]]:
        """As `conclude`, once the hosts agreed. Blocks until then, a signal asks to stop, or AGREE_LIMIT_S are over."""
        end_s = time.monotonic() + AGREE_LIMIT_S
        with self._agent() as agent:
            while (agreed := agent.parley(wish_of(findings))) is None:
                taken = desk.take(timeout_s=POLL_S)
                if taken is not None and taken.asks_to_stop:
                    return Restart(is_wanted=False, why="stopped by a signal"), ()
                if agent.is_hopeless or time.monotonic() > end_s:
                    why = agent.problem or "too few of them wish it, or have not ended their part"
                    return Restart(is_wanted=False, why=f"the hosts did not agree on another attempt: {why}"), ()
        return self.conclude(agreed, rerun)

    def leave(self) -> None:
        """Tells the others that this host makes no other attempt."""
        with self._agent() as agent:
            agent.leave(is_done=True)

    def conclude(self, agreed: Agreed, rerun: Restart) -> tuple[Restart, tuple[Finding, ...]]:
        """Whether this host takes part in the attempt that was agreed, and the findings for those that leave."""
        new = _new(self.node.agreed, agreed)
        host = self.node.host
        self.node, self._next = replace(self.node, agreed=agreed), None
        if (mine := agreed.out.get(host)) is not None:
            why = f"{host} was named ({mine.get('code')}) and takes no part any more"
            return Restart(is_wanted=False, why=why), new
        without = f" without {', '.join(each.hosts[0] for each in new)}" if new else ""
        return replace(rerun, why=rerun.why + without), new


def wish_of(findings: Sequence[Finding]) -> dict[str, Finding]:
    """The host to be left out after an attempt that ended for these findings, and why."""
    named = named_host(findings)
    return {} if named is None else {named.hosts[0]: named}


def _new(before: Agreed, after: Agreed) -> tuple[Finding, ...]:
    return tuple(each for each in after.findings if each.hosts[0] not in before.out)
