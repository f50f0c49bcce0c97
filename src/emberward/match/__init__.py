"""Judges a trace: does it end, and if not, who waits for whom. Pure; standard library and numpy only.

`check` judges a plain trace, `check_roles` a large one by the symmetry of its mesh, `prove_periodic` a family of
traces for every number of micro-batches or steps, `explain` puts a verdict into words. `Clockwork` runs a trace with a
clock. What matching cannot prove is
listed in ``docs/match.md``.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.match._check import check
    from emberward.match._check_roles import check_roles
    from emberward.match._divergence import decisions_inside
    from emberward.match._explain import explain, explain_finding
    from emberward.match._fault import OddSide, TieBreak
    from emberward.match._flow import Executed, Frame, Item, Loop, Step, new_steps
    from emberward.match._periodic import PeriodicProof, prove_periodic, prove_steps, repeated
    from emberward.match._roles import RoleBuilder, RoleTrace
    from emberward.match._timed import Clockwork, Timed
    from emberward.match._verdict import (
        RENDEZVOUS,
        UNBOUNDED,
        BatchCompletion,
        Cure,
        EditKind,
        Outcome,
        SendSemantics,
        Verdict,
        WaitLine,
        buffered,
    )
    from emberward.match._words import ranks_text
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "RENDEZVOUS",
    "UNBOUNDED",
    "BatchCompletion",
    "Clockwork",
    "Cure",
    "EditKind",
    "Executed",
    "Frame",
    "Item",
    "Loop",
    "OddSide",
    "Outcome",
    "PeriodicProof",
    "RoleBuilder",
    "RoleTrace",
    "SendSemantics",
    "Step",
    "TieBreak",
    "Timed",
    "Verdict",
    "WaitLine",
    "buffered",
    "check",
    "check_roles",
    "decisions_inside",
    "explain",
    "explain_finding",
    "new_steps",
    "prove_periodic",
    "prove_steps",
    "ranks_text",
    "repeated",
]
