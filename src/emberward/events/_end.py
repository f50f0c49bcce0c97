"""How a process ended, as an observer saw it: facts alone. `diagnose` says what they mean."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """What is known of one process at its end, or of one whose program has ended. Absent facts are None.

    `exit_code` is negative for a signal. `words` is the exception that left its program, as ``Type: message``, or what
    a crash wrote (``Fatal Python error: Segmentation fault``); `site` the line of it, or of where the process was.
    `is_gone`: the process is no more. `has_left`: its program returned. `has_data_end`: its data had ended then.
    `needs`: whom the call needs in which it was to its end, or the backward.
    `is_recorded`: an exception would have been seen, so that without `words` there was none.
    `at_s` is when it ended and `alive_s` when it was last seen alive, in seconds of a clock that all ends of one
    attempt share. `source` is the file that tells it.
    """

    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    exit_code: int | None = None
    words: str | None = None
    site: str | None = None
    is_gone: bool = True
    has_left: bool = False
    has_data_end: bool = False
    needs: tuple[int, ...] = ()
    is_recorded: bool = False
    at_s: float | None = None
    alive_s: float | None = None
    source: str | None = None
