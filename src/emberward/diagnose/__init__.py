"""Concludes from what was observed. Pure: standard library only, and it reads no file.

How a process ended and which end came first, which process is which rank, what a rank is expected to do
next, and which of several claims about an incident stand. The rules that claim what a job's ranks do are still in
`sources`.
"""

from emberward.diagnose._claims import (
    MEET_AND_DIFFER,
    Claim,
    Ground,
    Rule,
    after_roots,
    conclude,
    hear,
    names_someone,
    roots,
)
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
from emberward.diagnose._identity import Identity, identify
from emberward.diagnose._order import MIN_ROUNDS, Newest, continues, has_followed, newest, rounds, shift
from emberward.diagnose._states import cause_of_state, next_of_state, words_of_state

__all__ = [
    "FATAL",
    "LEFT",
    "MEET_AND_DIFFER",
    "MIN_ROUNDS",
    "Claim",
    "Ending",
    "Ground",
    "Identity",
    "Newest",
    "Rule",
    "after_roots",
    "cause_of_state",
    "cause_of_words",
    "classify",
    "conclude",
    "continues",
    "failures_of_ranks",
    "first_endings",
    "has_followed",
    "hear",
    "identify",
    "is_secondary",
    "names_someone",
    "newest",
    "next_of_state",
    "roots",
    "rounds",
    "shift",
    "words_of_state",
]
