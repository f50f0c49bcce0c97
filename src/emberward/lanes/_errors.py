"""The errors of lanes, and the notes that tell where a task came from. No torch."""

from collections.abc import Sequence
from types import CodeType

from emberward.findings import Cause, EmberwardError

Stack = tuple[tuple[CodeType, int], ...]
"""Code and last instruction of each frame, the innermost first: cheap to take, made into text when it is needed."""


def stack_text(stack: Stack) -> str:
    """One line a frame, outermost first, as a traceback has them."""
    lines = []
    for code, at in reversed(stack):
        line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
        lines.append(f'  File "{code.co_filename}", line {line}, in {code.co_qualname}')
    return "\n".join(lines)


def site_of(stack: Stack) -> str:
    """The innermost frame as file:line."""
    code, at = stack[0]
    line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
    return f"{code.co_filename}:{line}"


def too_many(device: str, limit: int, names: Sequence[str]) -> EmberwardError:
    """W101."""
    return EmberwardError(
        f"{device} has {limit} lanes already",
        code="W101",
        expected=f"at most {limit} lanes on a device, made once and used again",
        found=", ".join(names),
        next='use one of these again: lanes.lane("NAME") gives the lane that has the name; or close one with '
        "lane.close()",
    )


def queue_full(lane: str, depth: int) -> EmberwardError:
    """W102."""
    return EmberwardError(
        f"the queue of lane {lane} is full",
        code="W102",
        expected=f"at most {depth} tasks that are not done",
        found="one more, and the lane was asked to raise rather than to wait",
        next="submit less, make the lane deeper (depth=), or let submit wait (when_full=WhenFull.WAIT)",
    )


def written_to(lane: str, what: str, shape: Sequence[int], site: str) -> EmberwardError:
    """W103."""
    return EmberwardError(
        f"a tensor was written in place while lane {lane} had it",
        code="W103",
        where=f"{what} of shape {list(shape)}, handed over at {site}",
        expected="no write in place from the hand-over until the task is done",
        found="its version counter moved: the task may have read new values, or half of them",
        next="hand over a copy (tensor.clone()), or wait for the result before the write; a task that is to write "
        "into it takes lanes.Out(tensor)",
    )


def waits_for_itself(names: Sequence[str]) -> EmberwardError:
    """W104."""
    circle = " waits for ".join(f"lane {name}" for name in (*names, names[0]))
    return EmberwardError(
        "a wait on a lane could never end",
        code="W104",
        expected="a task waits for results of other lanes only, and those do not wait for it",
        found=circle,
        next="give the result to the task as an argument of another lane, or run the work inside this task",
        cause=Cause.LOCK,
    )


def gone(lane: str, why: str) -> EmberwardError:
    """W105."""
    return EmberwardError(
        f"a task of lane {lane} was never done",
        code="W105",
        found=why,
        next="submit it again; a lane of the same name is made anew when it is asked for",
    )


def other_settings(lane: str, wanted: str, found: str) -> EmberwardError:
    """W106."""
    return EmberwardError(
        f"lane {lane} was made with other settings",
        code="W106",
        expected=wanted,
        found=found,
        next="ask for it with the settings that it has, or take another name",
    )
