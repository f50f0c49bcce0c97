"""Small edits of one rank's program that keep every reference true: reorder, move to a lane, add, remove, replace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from emberward.events import Body, Event, Lane, Ref, Wait


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of an edited program: an old event, or a copy of `event` where `is_new`."""

    event: Event
    lane: Lane
    body: Body
    is_new: bool = False


def items_of(events: Sequence[Event]) -> list[Item]:
    """The unedited program."""
    return [Item(event=event, lane=event.lane, body=event.body) for event in events]


def program_of(items: Sequence[Item], rank: int) -> tuple[Event, ...]:
    """The edited program: positions counted anew, references follow their events, references to removed ones drop.

    A Wait whose event was removed is removed with it.
    """
    kept = {(item.event.lane, item.event.position) for item in items if not item.is_new}
    items = [
        item
        for item in items
        if not (isinstance(item.body, Wait) and (item.body.on.lane, item.body.on.position) not in kept)
    ]
    moved: dict[tuple[Lane, int], Ref] = {}
    counts: dict[Lane, int] = {}
    positions: list[int] = []
    for item in items:
        position = counts.get(item.lane, 0)
        counts[item.lane] = position + 1
        positions.append(position)
        if not item.is_new:
            moved[(item.event.lane, item.event.position)] = Ref(lane=item.lane, position=position)
    return tuple(_placed(item, rank, position, moved) for item, position in zip(items, positions, strict=True))


def _placed(item: Item, rank: int, position: int, moved: Mapping[tuple[Lane, int], Ref]) -> Event:
    body = item.body
    if isinstance(body, Wait):
        body = replace(body, on=moved[(body.on.lane, body.on.position)])
    refs = [] if item.is_new else [moved.get((ref.lane, ref.position)) for ref in item.event.after]
    return replace(
        item.event,
        rank=rank,
        lane=item.lane,
        position=position,
        body=body,
        after=tuple(ref for ref in refs if ref is not None),
    )
