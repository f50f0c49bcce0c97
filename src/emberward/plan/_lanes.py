"""The first stage's backwards on a lane of their own, beside its forwards.

[Note: two lanes]
By default one host thread of a pipeline rank runs its forwards and backwards in the schedule's order. With a backward
lane the rank of the first stage runs them on two threads, each in its own order, with a tp communicator for each; two
things tie the lanes together:

- ``repeat``: forward k >= 1 takes one unit of this credit, backward k gives one back (the last one does not: the first
  forward of the next step uses what the variable itself fills). So the forwards run at most `repeat` + 1 ahead.
- ``source buffer``: each backward takes one, which is given by the buffer in front of it. With
  `BackwardLane.FED_BY_FORWARDS` that lies on the forwards' lane, where nothing fixes its place: on even tp ranks it
  stands behind the next-but-one forward, on odd ones in front of it, and so does the forward's `repeat`. That is
  OneFlow's plan of OneFlow-Inc/libai#232. Its third forward hangs under a credit of one: a ring through four lanes of
  two tp ranks. With `BackwardLane.OWN` the buffer lies on the backwards' lane, as the repair has it: no ring.

``backwards``: the step's end waits for the last backward. A forward's send is waited for two forwards later.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from emberward.events import Acquire, Body, Compute, Event, Lane, LaneKind, Phase, Release, Stage, Wait
from emberward.plan._program import Pipe, ProgramWriter, phase_of
from emberward.plan._schedule import Action, Schedule, Work

BACKWARD = Lane(kind=LaneKind.HOST, index=1, label="backward")
REPEAT, SOURCE_BUFFER, BACKWARDS = "repeat", "source buffer", "backwards"


class BackwardLane(StrEnum):
    """Where the first stage's backwards run. See [Note: two lanes]."""

    SHARED = "shared"
    OWN = "own"
    FED_BY_FORWARDS = "fed_by_forwards"


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLanes:
    """How a rank of the first stage runs two lanes: whether the forwards feed the backwards, and on an odd tp rank."""

    is_fed_by_forwards: bool
    is_odd: bool


def lane_credits(repeat: int) -> Mapping[str, int]:
    """The capacities of the credits between the two lanes."""
    return {REPEAT: repeat, SOURCE_BUFFER: 0, BACKWARDS: 0}


def two_lane_program(
    schedule: Schedule, pipe: Pipe, lanes: TwoLanes, *, tail: Sequence[Body] = ()
) -> tuple[Event, ...]:
    """The program of the rank of the first stage, on two host lanes. See [Note: two lanes].

    The schedule holds one stage a rank. The events' order, read without regard to credits, is one in which the data
    can flow.
    """
    order = schedule.orders[schedule.rank_of(0)]
    forwards = [action for action in order if action.work is Work.FORWARD]
    writer = ProgramWriter.of(schedule, pipe, schedule.rank_of(0))
    for number, forward in enumerate(forwards):
        if number >= 2:
            writer.wait_for_send(forwards[number - 2], phase_of(forward))
        if lanes.is_odd:
            _tie(writer, number, forward, lanes)
        writer.host(Compute(name=str(forward)), phase_of(forward))
        writer.launch_after(forwards, number)
        if not lanes.is_odd:
            _tie(writer, number, forward, lanes)
        if number >= 2:
            _backward(writer, number - 2, len(forwards), lanes)
    for number in range(max(0, len(forwards) - 2), len(forwards)):
        _feed(writer, number, lanes)
        _backward(writer, number, len(forwards), lanes)
    writer.host(Acquire(credit=BACKWARDS), Phase())
    for source in list(writer.sends):
        writer.wait_for_send(source, Phase())
    for body in tail:
        writer.host(body, Phase(stage=Stage.OPTIMIZER))
    return writer.events()


def _tie(writer: ProgramWriter, number: int, forward: Action, lanes: TwoLanes) -> None:
    """What stands beside a forward on its lane, in the order that the tp rank's plan has."""
    if lanes.is_odd:
        _feed(writer, number - 2, lanes)
    if number >= 1:
        writer.host(Acquire(credit=REPEAT), phase_of(forward))
    if not lanes.is_odd:
        _feed(writer, number - 2, lanes)


def _feed(writer: ProgramWriter, number: int, lanes: TwoLanes) -> None:
    """The source buffer of a backward, where it lies on the forwards' lane."""
    if number >= 0 and lanes.is_fed_by_forwards:
        writer.host(Release(credit=SOURCE_BUFFER), phase_of(Action(0, Work.BACKWARD, number)))


def _backward(writer: ProgramWriter, number: int, num_mb: int, lanes: TwoLanes) -> None:
    """A backward on its own lane."""
    action = Action(0, Work.BACKWARD, number)
    phase = phase_of(action)
    with writer.on(BACKWARD):
        if not lanes.is_fed_by_forwards:
            writer.host(Release(credit=SOURCE_BUFFER), phase)
        writer.host(Acquire(credit=SOURCE_BUFFER), phase)
        writer.post_receives_until(action)
        if number + 1 < num_mb:
            writer.post_receives_until(Action(0, Work.BACKWARD, number + 1))
        writer.host(Wait(on=writer.receives[action]), phase)
        writer.host(Compute(name=str(action)), phase)
        writer.host(Release(credit=BACKWARDS if number + 1 == num_mb else REPEAT), phase)
