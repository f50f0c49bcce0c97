"""Concludes from what was observed. Pure: standard library only, and it reads no file.

As yet: how a process ended, and which end came first. What a running job's ranks do is concluded in `sources`.
"""

from emberward.diagnose._ends import (
    FATAL,
    LEFT,
    Ending,
    cause_of_words,
    classify,
    failures_of_ranks,
    first_endings,
    is_secondary,
)

__all__ = [
    "FATAL",
    "LEFT",
    "Ending",
    "cause_of_words",
    "classify",
    "failures_of_ranks",
    "first_endings",
    "is_secondary",
]
