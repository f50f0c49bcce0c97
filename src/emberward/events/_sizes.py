"""How many elements each member of a group gives to and expects of each other one in a collective.

[Note: splits that are not recorded]
A gather or reduce-scatter without splits has even parts. An all-to-all or scatter without them was seen by an observer
that does not record splits (a ring, a dump, a trace of version 1): its parts are unknown.
"""

from emberward.events._event import Collective, CollectiveOp

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "bfloat16": 2, "float16": 2, "uint8": 1, "bool": 1}
"""Bytes of an element by dtype, as events name them."""

Sizes = tuple[int, ...] | None
"""One count a member, in group order; None when unknown."""


def gives(body: Collective, rank: int) -> Sizes:
    """What `rank` gives to each member. See [Note: splits that are not recorded]."""
    size, numel = len(body.group.ranks), body.numel
    match body.op:
        case CollectiveOp.ALL_TO_ALL:
            return body.in_splits
        case CollectiveOp.ALL_GATHER:
            return None if numel is None else (numel,) * size
        case CollectiveOp.REDUCE_SCATTER:
            return body.in_splits or (None if numel is None else (numel // size,) * size)
        case CollectiveOp.GATHER:
            return None if numel is None else tuple(numel if other == body.root else 0 for other in body.group.ranks)
        case CollectiveOp.SCATTER:
            return body.in_splits if rank == body.root else (0,) * size
        case _:
            return None


def expects(body: Collective, rank: int) -> Sizes:
    """What `rank` expects of each member. See [Note: splits that are not recorded]."""
    size, numel = len(body.group.ranks), body.numel
    out = numel if body.out_numel is None else body.out_numel
    match body.op:
        case CollectiveOp.ALL_TO_ALL:
            return body.out_splits
        case CollectiveOp.ALL_GATHER:
            return body.out_splits or (None if numel is None else (numel,) * size)
        case CollectiveOp.REDUCE_SCATTER:
            return None if body.out_numel is None and size > 1 else (out or 0,) * size
        case CollectiveOp.GATHER:
            if rank != body.root:
                return (0,) * size
            return body.out_splits or (None if numel is None else (numel,) * size)
        case CollectiveOp.SCATTER:
            return None if out is None else tuple(out if other == body.root else 0 for other in body.group.ranks)
        case _:
            return None


def is_split(body: Collective) -> bool:
    """Whether the call's parts may differ from member to member, so that sizes must be compared pair by pair."""
    return (
        body.op in (CollectiveOp.ALL_TO_ALL, CollectiveOp.SCATTER)
        or body.in_splits is not None
        or body.out_splits is not None
    )


def misfits(given: tuple[Sizes, ...], expected: tuple[Sizes, ...]) -> tuple[tuple[int, int, int, int], ...]:
    """(giver, taker, given, expected) of each pair of members that do not fit, in group order; unknown ones do."""
    found = []
    for i, row in enumerate(given):
        for j, column in enumerate(expected):
            if row is not None and column is not None and row[j] != column[i]:
                found.append((i, j, row[j], column[i]))
    return tuple(found)
