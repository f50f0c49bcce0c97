"""What lines of logs tell, as the reader of logs gives it."""

from dataclasses import dataclass
from enum import StrEnum


class LogFactKind(StrEnum):
    """What a line of a log says."""

    TIMEOUT = "timeout"
    LAST_WORK = "last_work"
    FINISHED_NOT_JOINED = "finished_not_joined"
    JOINED_NOT_FINISHED = "joined_not_finished"
    NEVER_JOINED = "never_joined"
    HEARTBEAT_LOST = "heartbeat_lost"
    SIZE = "size"
    END = "end"
    THREAD = "thread"
    """A thread beside the main one ended with an exception."""
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFact:
    """One fact. `rank` is None when the line names none. `seq` counts a group's calls from 1."""

    kind: LogFactKind
    path: str
    line: int
    text: str
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    group: str | None = None
    seq: int | None = None
    word: str | None = None
    exit_code: int | None = None
    pid: int | None = None
    site: str | None = None
