"""Programs of many micro-batches in a dry run: few are executed, and their calls are repeated for the others.

[Note: folded steps]
`plan/_repeats.py` [Note: repeated computes] says which computes call alike and finds the shortest step that has those
that were not executed before. That one is executed in place of the long one, from the same state and to the same end;
afterwards its calls and those that are known are laid out in the order of the long step's program. What ends a step
(totals, optimizer) is executed each time and taken from there. Each wait that a compute makes for a call of a compute
before it is kept as so many computes back. Where two computes of one setting did not call alike, nothing is repeated
from then on, and the long step is executed.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from emberward.engine import PhaseMark
from emberward.events import Event, Phase, Ref, Stage, Wait
from emberward.plan import action_of, settings, short_step
from emberward.sources import Note, Tape

Target = tuple[int, int] | None
"""(computes back, number among that compute's notes) of what a note waits for; None when it is a call."""
Unit = tuple[tuple[Note, Target], ...]
"""What an event of a program left on the tape, for any micro-batch."""


@dataclass(frozen=True, slots=True)
class Executed:
    """A program that ran: its events, and the number of the tape's first note of each, with the end behind them."""

    program: Sequence[Event]
    first_notes: Sequence[int]


@dataclass(slots=True)
class _Known:
    """What a kind of program's settings left when they were executed, and how often they were."""

    units: dict[Hashable, Unit] = field(default_factory=dict)
    times: Counter[Hashable] = field(default_factory=Counter)
    is_regular: bool = True


class StepFolder:
    """Runs programs on a tape, the long ones by short ones. See [Note: folded steps]."""

    def __init__(self, tape: Tape, mark: PhaseMark) -> None:
        self._tape = tape
        self._mark = mark
        self._known: defaultdict[Hashable, _Known] = defaultdict(_Known)
        self._first_notes: list[int] = []

    def mark(self, phase: Phase) -> None:
        """What the executor is to call before each event."""
        self._first_notes.append(len(self._tape))
        self._mark(phase)

    def run(
        self,
        num_mb: int,
        program_of: Callable[[int], tuple[Event, ...]],
        execute: Callable[[tuple[Event, ...]], None],
        *,
        key: Hashable,
        step: int | None,
    ) -> None:
        """Runs the program of `num_mb` micro-batches, or one in its place. `key` names what `program_of` depends on."""
        known = self._known[key]
        program, count = program_of(num_mb), num_mb
        if known.is_regular:
            count = short_step(num_mb, program_of, known=known.times)
        first = len(self._tape)
        self._first_notes.clear()
        execute(program_of(count))
        if not known.is_regular:
            return
        assert not self._tape.open_calls(first), "a step leaves no call without its wait"
        executed = program_of(count)
        kinds = settings(executed)
        units = _units(Executed(executed, list(self._first_notes)), kinds, self._tape.notes(first), known.units)
        known.is_regular = units is not None
        if units is not None:
            known.units = units
            known.times.update(kinds)
        if count == num_mb:
            return
        self._tape.drop(first)
        if units is None:
            execute(program)
        else:
            self._lay_out(program, settings(program), units, step)

    def _lay_out(
        self, program: Sequence[Event], kinds: Sequence[Hashable], units: Mapping[Hashable, Unit], step: int | None
    ) -> None:
        """Writes the notes of `program`."""
        begins: list[int] = []
        calls: dict[Ref, int] = {}
        for event, kind in zip(program, kinds, strict=True):
            self._mark(replace(event.phase, step=step))
            at = calls[event.ref] = len(self._tape)
            if action_of(event) is not None:
                begins.append(at)
            for note, target in units[kind]:
                if isinstance(event.body, Wait):
                    waited: int | None = calls[event.body.on]
                else:
                    waited = None if target is None else begins[-1 - target[0]] + target[1]
                self._tape.repeat(note, waited=waited)
        self._mark(Phase(step=step))


def _units(
    done: Executed, kinds: Sequence[Hashable], notes: Sequence[Note], known: Mapping[Hashable, Unit]
) -> dict[Hashable, Unit] | None:
    """`known` with what each setting's events left; None when two of one setting left something else.

    `notes` begin with the program's first. The last mark of a program stands behind its last event. What no schedule
    orders, the end of a step, is taken as it was this time.
    """
    begins: list[int] = []
    units = dict(known)
    first = done.first_notes[0]
    for number, (event, kind) in enumerate(zip(done.program, kinds, strict=True)):
        begin, end = done.first_notes[number] - first, done.first_notes[number + 1] - first
        if action_of(event) is not None:
            begins.append(begin)
        unit = tuple(
            (replace(note, phase=Phase(), waited=None), _target(note.waited, event, begins, first))
            for note in notes[begin:end]
        )
        if event.phase.stage is Stage.OPTIMIZER:
            units[kind] = unit
        elif units.setdefault(kind, unit) != unit:
            return None
    return units


def _target(waited: int | None, event: Event, begins: Sequence[int], first: int) -> Target:
    if waited is None:
        return None
    if isinstance(event.body, Wait):
        return (0, 0)
    at = waited - first
    back = next(back for back, begin in enumerate(reversed(begins)) if begin <= at)
    return back, at - begins[-1 - back]
