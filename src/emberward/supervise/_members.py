"""The rank processes of a running command, found without its help, and how each of them ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from emberward.processes import ProcessId, identify
from emberward.sources.live import RANK_NAMES, environment_of, rank_in
from emberward.supervise._exits import Ended, ExitWatch

MAX_MEMBERS = 4096


@dataclass(slots=True, kw_only=True)
class Member:
    """One rank process; `ended` is None while it lives, `ring` None while it has no ring."""

    rank: int
    process: ProcessId
    ended: Ended | None = None
    ring: Path | None = None


def children_of(pid: int) -> list[int]:
    """The living children of a process; [] when it is gone."""
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    except OSError:
        pass
    return found


def ranks_below(root: int) -> dict[int, int]:
    """pid -> rank of the rank processes below `root`, itself included.

    A process that has its parent's rank, such as a data loader's worker, is no rank of its own.
    """
    found: dict[int, int] = {}
    left: list[tuple[int, int | None]] = [(root, None)]
    while left and len(found) < MAX_MEMBERS:
        pid, parents = left.pop()
        rank = rank_in(environment_of(pid, RANK_NAMES))
        if rank is not None and rank != parents:
            found[pid] = rank
        left += [(child, rank) for child in children_of(pid)]
    return found


class Members:
    """All rank processes that this attempt has had on this host, by pid. `close` it."""

    def __init__(self, *, own_rank: int | None = None, is_elastic: bool = False) -> None:
        """`own_rank` is the rank of our own environment: what merely inherited it is no member.

        `is_elastic`: the launcher may start anew with fewer ranks, and with other ones here.
        """
        self._own_rank = own_rank
        self._is_elastic = is_elastic
        self._watches: dict[int, ExitWatch] = {}
        self.by_pid: dict[int, Member] = {}

    def add(self, ranks: Mapping[int, int], *, rings: Mapping[int, Path] | None = None) -> None:
        """Adds processes, pid -> rank, that are not known yet; one that its parent has waited for is left out."""
        for pid, rank in ranks.items():
            known = self.by_pid.get(pid)
            if known is None and rank != self._own_rank and len(self.by_pid) < MAX_MEMBERS:
                known = self._take_up(pid, rank)
            if known is not None and rings is not None and pid in rings:
                known.ring = rings[pid]

    def _take_up(self, pid: int, rank: int) -> Member | None:
        # One that ended before it was seen still has an exit code, until its parent has asked for it.
        process = identify(pid, or_zombie=True)
        if process is None:
            return None
        try:
            self._watches[pid] = ExitWatch(pid)
        except OSError:
            return None
        self.by_pid[pid] = Member(rank=rank, process=process)
        return self.by_pid[pid]

    def newly_ended(self, *, now_unix: float) -> list[Member]:
        """The members that ended since the last snapshot. Does not wait."""
        gone = []
        for pid, watch in list(self._watches.items()):
            if (ended := watch.ended(now_unix=now_unix)) is not None:
                self.by_pid[pid].ended = ended
                gone.append(self.by_pid[pid])
                watch.close()
                del self._watches[pid]
        return gone

    @property
    def living(self) -> list[Member]:
        """The members that have not ended."""
        return [member for member in self.by_pid.values() if member.ended is None]

    def latest(self) -> list[Member]:
        """The youngest process of each rank, by rank: a launcher may have started a rank again.

        Of an elastic launcher, those of its last start: it ends all ranks before it starts any.
        """
        found: dict[int, Member] = {}
        for member in self.by_pid.values():
            before = found.get(member.rank)
            if before is None or member.process.created > before.process.created:
                found[member.rank] = member
        if self._is_elastic:
            newest = max((member.process.created for member in found.values()), default=0.0)
            found = {
                rank: member
                for rank, member in found.items()
                if member.ended is None or member.ended.seen_unix >= newest or member.process.created == newest
            }
        return [found[rank] for rank in sorted(found)]

    def close(self) -> None:
        """Gives the file descriptors back."""
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
