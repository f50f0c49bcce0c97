"""The setup that all roles share, taken out of what is simulated.

[Note: common setup]
A world makes its groups first, each by a call of every rank: tens of thousands on a large mesh, and each costs the
judge a slot of every rank. Where the programs of all roles begin with the same such calls, on one host lane and with
nothing before them, every rank makes them in one order, so that each ends on all ranks (by induction: where all ranks
have ended the first k, all call the k-th next). What follows is judged as if it were the beginning.
"""

from dataclasses import replace

from emberward.events import Event, GroupCreate, LaneKind, Ref, Wait
from emberward.match._roles import RoleTrace


def without_common_setup(roles: RoleTrace) -> RoleTrace:
    """`roles` without the calls of the whole world with which every role begins alike. See [Note: common setup]."""
    count = _common(list(roles.programs.values()))
    if not count:
        return roles
    return replace(roles, programs={rank: _behind(events, count) for rank, events in roles.programs.items()})


def _common(programs: list[tuple[Event, ...]]) -> int:
    """How many events, of those with which all programs begin, are calls of the whole world on one host lane."""
    first = programs[0]
    for number, event in enumerate(first):
        is_world = isinstance(event.body, GroupCreate) and event.body.members is None
        is_host = event.lane.kind is LaneKind.HOST and event.lane == first[0].lane
        if not (is_world and is_host and not event.after):
            return number
        for other in programs:
            if number >= len(other) or (other[number].lane, other[number].body) != (event.lane, event.body):
                return number
    return len(first)


def _behind(events: tuple[Event, ...], count: int) -> tuple[Event, ...]:
    """The events after the first `count`, all on one lane, whose later positions move forward by as many."""
    lane = events[0].lane

    def moved(ref: Ref) -> Ref | None:
        if ref.lane != lane:
            return ref
        return None if ref.position < count else Ref(lane=lane, position=ref.position - count)

    def changed(event: Event) -> Event:
        after = tuple(found for ref in event.after if (found := moved(ref)) is not None)
        body = event.body
        if isinstance(body, Wait):
            on = moved(body.on)
            assert on is not None, "a call of the whole world that blocks is not waited for"
            body = replace(body, on=on)
        position = event.position - count if event.lane == lane else event.position
        return replace(event, body=body, after=after, position=position)

    return tuple(map(changed, events[count:]))
