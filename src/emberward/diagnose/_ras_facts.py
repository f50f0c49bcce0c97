"""What a report of NCCL's RAS service tells, as its reader gives it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RasMember:
    """One rank of a communicator as RAS knows it. `rank` counts inside the communicator."""

    rank: int | None
    pid: int | None
    host: str | None
    launched: int | None = None
    is_missing: bool = False
    is_dead: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RasComm:
    """One communicator: those members that stand out. `leading` is the highest launch count."""

    name: str
    members: tuple[RasMember, ...]
    leading: int | None = None


@dataclass(slots=True)
class RasReport:
    """One answer of RAS. `processes` are those that it calls dead or unreachable."""

    path: str
    comms: list[RasComm] = field(default_factory=list)
    processes: list[RasMember] = field(default_factory=list)
