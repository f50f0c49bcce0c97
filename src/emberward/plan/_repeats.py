"""Which computes of a program are repetitions of others, and the shortest step that holds one of each.

[Note: repeated computes]
The events of a step of many micro-batches follow from those of a step of few. What is launched and waited for between
stages stands in the program itself. What a compute calls inside is decided by its stage, by what it does (F, B, I, W)
and by the state in which FSDP2 is then: gathered or not, gradients there or not, what it will fetch ahead, whether it
is told to reduce. That state is made by the computes before it since the program began, of which it remembers
- of each stage whether a forward, a backward and a weights' part have run, and what ran last;
- the forwards without a backward as a stack, of which a backward takes the uppermost: whether there is one, and whether
  it is the program's first, before which nothing stands that could be fetched ahead but the forwards of an evaluation;
and by what follows: whether it is the last of its stage, and whether a weights' part runs in one with it. Computes with
equal answers are of one **setting**, and call alike. `rank/_folded_steps.py` executes programs until it has seen every
setting as often as it occurs in the long one or twice, holds those of a setting against each other, and repeats them.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from emberward.events import Compute, Event, Recv, Ref, Send, Wait
from emberward.findings import ConfigError
from emberward.plan._schedule import Action, Work

_ENOUGH = 2
"""Computes of a setting that are executed where there are so many: two can be compared."""


@dataclass(slots=True)
class _Stage:
    """What is remembered of a stage's computes. See [Note: repeated computes].

    `start` says what the program before was.
    """

    start: str
    done: set[Work] = field(default_factory=set)
    last: Work | None = None
    open: list[str | None] = field(default_factory=list)
    """For each forward without a backward `start` if it was the stage's first."""

    def state(self) -> Hashable:
        return frozenset(self.done), self.last or self.start, tuple(self.open[-1:])

    def run(self, work: Work) -> None:
        if work is Work.FORWARD:
            self.open.append(None if Work.FORWARD in self.done else self.start)
        elif work is not Work.WEIGHT and self.open:
            self.open.pop()
        self.done.add(work)
        self.last = work


def action_of(event: Event) -> Action | None:
    """The schedule's action that an event of a program computes; None for any other event."""
    if isinstance(event.body, Compute) and event.body.name[:1].isdigit():
        return Action.from_text(event.body.name)
    return None


def settings(program: Sequence[Event], *, follows_forwards: bool = False) -> list[Hashable]:
    """For each event of a program its setting: equal ones differ in their micro-batch alone.

    That of a transfer is what travels and where; of a wait, what is waited for. `follows_forwards`: the program before
    had forwards alone. See [Note: repeated computes].
    """
    actions = [action_of(event) for event in program]
    left = Counter((action.stage, action.work) for action in actions if action is not None)
    start, stages = "after forwards" if follows_forwards else "at rest", dict[int, _Stage]()
    kinds: dict[Ref, Hashable] = {}
    found: list[Hashable] = []
    for number, (event, action) in enumerate(zip(program, actions, strict=True)):
        if action is not None:
            before = actions[number - 1] if number else None
            after = actions[number + 1] if number + 1 < len(actions) else None
            left[action.stage, action.work] -= 1
            is_last = left[action.stage, action.work] == 0
            is_whole = _is_whole(action, after) or (before is not None and _is_whole(before, action))
            stage = stages.setdefault(action.stage, _Stage(start))
            kind: Hashable = (action.stage, action.work, is_last, is_whole, stage.state())
            stage.run(action.work)
        else:
            kind = _other(event, kinds)
        kinds[event.ref] = kind
        found.append(kind)
    return found


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
    follows_forwards: bool = False,
) -> int:
    """The least number of micro-batches whose program lacks no setting of that with `num_mb`; `num_mb` if none less.

    `known` are the settings that were executed before, with their times. `program_of` gives the program of a step;
    ConfigError of it means that there is no such step. Pure.
    """
    known = known or {}
    wanted = Counter(settings(program_of(num_mb), follows_forwards=follows_forwards))
    for count in range(1, num_mb):
        try:
            held = Counter(settings(program_of(count), follows_forwards=follows_forwards))
        except ConfigError:
            continue
        if all(known.get(kind, 0) + held[kind] >= min(times, _ENOUGH) for kind, times in wanted.items()):
            return count
    return num_mb
