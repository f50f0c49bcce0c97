"""Which computes of a program are repetitions of others, and the shortest step that holds one of each.

[Note: repeated computes]
The events of a step of many micro-batches follow from those of a step of few. What is launched and waited for between
stages stands in the program itself. What a compute calls inside is decided by its stage, by what it does (F, B, I, W),
and by what is gathered over dp and what is summed then: whether it is the program's first of its stage, before which
nothing was gathered; whether it is the last, which sums; whether a weights' part runs in one with it; and whether the
compute before it and the one after it that read parameters are of its stage, and of its direction (`_gathers.py`
[Note: kept for the next compute]). Computes with equal answers are of one **setting**, and call alike.
`rank/_folded_steps.py` executes programs until it has seen every setting as often as it occurs in the long one or
twice, holds those of a setting against each other, and repeats them.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from emberward.events import Compute, Event, Recv, Ref, Send, Wait
from emberward.findings import ConfigError
from emberward.plan._gathers import readers
from emberward.plan._schedule import Action, Work

_ENOUGH = 2
"""Computes of a setting that are executed where there are so many: two can be compared."""


def action_of(event: Event) -> Action | None:
    """The schedule's action that an event of a program computes; None for any other event."""
    if isinstance(event.body, Compute) and event.body.name[:1].isdigit():
        return Action.from_text(event.body.name)
    return None


def settings(program: Sequence[Event]) -> list[Hashable]:
    """For each event of a program its setting: equal ones differ in their micro-batch alone.

    That of a transfer is what travels and where; of a wait, what is waited for. See [Note: repeated computes].
    """
    actions = [action_of(event) for event in program]
    left = Counter((action.stage, action.work) for action in actions if action is not None)
    order = readers(action for action in actions if action is not None)
    beside = {action: around for action, *around in zip(order, [None, *order], [*order[1:], None], strict=False)}
    begun: set[int] = set()
    kinds: dict[Ref, Hashable] = {}
    found: list[Hashable] = []
    for number, (event, action) in enumerate(zip(program, actions, strict=True)):
        if action is not None:
            before = actions[number - 1] if number else None
            after = actions[number + 1] if number + 1 < len(actions) else None
            left[action.stage, action.work] -= 1
            is_last = left[action.stage, action.work] == 0
            is_whole = _is_whole(action, after) or (before is not None and _is_whole(before, action))
            around = tuple(_relation(action, other) for other in beside.get(action, ()))
            kind: Hashable = (action.stage, action.work, action.stage in begun, is_last, is_whole, around)
            begun.add(action.stage)
        else:
            kind = _other(event, kinds)
        kinds[event.ref] = kind
        found.append(kind)
    return found


def _relation(action: Action, other: Action | None) -> Work | None:
    """What another compute of the action's stage does; None where it is of another stage or none."""
    return None if other is None or other.stage != action.stage else other.work


def _is_whole(action: Action, after: Action | None) -> bool:
    """Whether these are the two parts of a backward, which then runs as one."""
    return action.work is Work.INPUT and after == Action(action.stage, Work.WEIGHT, action.mb)


def _other(event: Event, kinds: dict[Ref, Hashable]) -> Hashable:
    match event.body:
        case Send() | Recv() as body:
            source = None if body.tensor is None else Action.from_text(body.tensor)
            what = None if source is None else (source.stage, source.work)
            return type(body), body.peer, body.group, body.tag, body.dtype, body.shape, what
        case Wait(on=ref):
            return "wait", kinds.get(ref)
        case body:
            return body


def short_step(
    num_mb: int,
    program_of: Callable[[int], Sequence[Event]],
    *,
    known: Mapping[Hashable, int] | None = None,
) -> int:
    """The least number of micro-batches whose program lacks no setting of that with `num_mb`; `num_mb` if none less.

    `known` are the settings that were executed before, with their times. `program_of` gives the program of a step;
    ConfigError of it means that there is no such step. Pure.
    """
    known = known or {}
    wanted = Counter(settings(program_of(num_mb)))
    for count in range(1, num_mb):
        try:
            held = Counter(settings(program_of(count)))
        except ConfigError:
            continue
        if all(known.get(kind, 0) + held[kind] >= min(times, _ENOUGH) for kind, times in wanted.items()):
            return count
    return num_mb
