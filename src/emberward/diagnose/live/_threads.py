"""A thread beside the main one for which that waits: one that ended with an exception, or a lane in a long task."""

from dataclasses import replace

from emberward.diagnose import Frame, Reading, ThreadStack, class_of, is_lane, ranks_text, user_frame, waits
from emberward.diagnose.live._scene import Scene
from emberward.events import HostState
from emberward.findings import Cause, Certainty, Finding, Kind

_TOLD = frozenset({"L102", "H125"})


def of_threads(finding: Finding, scene: Scene) -> Finding | None:
    """The finding about a rank whose main thread waits for another thread of it; None when it waits for none.

    How a rank ended, or that it was stopped, tells more than what its main thread waits for.
    """
    if finding.code in _TOLD:
        return None
    return _thread_death(finding, scene) or _lane_hang(finding, scene)


def _thread_death(finding: Finding, scene: Scene) -> Finding | None:
    """The finding about a rank that waits for a lock or a queue, when a thread of it has died; None otherwise.

    The recorder notes a thread's last exception and its line: that line is the site.
    """
    ranks = finding.culprit_ranks
    seen = scene.look.ranks.get(ranks[0]) if len(ranks) == 1 else None
    reading = None if seen is None else scene.readings.get(ranks[0])
    if seen is None or seen.ring is None or reading is None or reading.kind is not HostState.LOCK:
        return None
    died = seen.ring.moment("thread_died")
    if died is None:
        return None
    behind = f"; {waits(finding.waiting_ranks)} for it" if finding.waiting_ranks else ""
    return replace(
        finding,
        code="H131",
        kind=Kind.HANG,
        cause=Cause.THREAD_DIED,
        certainty=Certainty.OBSERVED,
        message=f"a thread of {ranks_text(ranks)} died ({died.text or 'an exception'}) and its main thread waits at "
        f"{reading.site}{behind}",
        site=died.site or finding.site,
        evidence=(f"the thread ended {died.age_s:.0f} s before the look", *finding.evidence),
        next="fix the exception, and hand it to the main thread instead of losing it with the thread",
    )


_LANES = "emberward/lanes/"
LANE = "lane "
"""How the name of a lane's thread begins (`emberward.lanes`)."""


def _lane_hang(finding: Finding, scene: Scene) -> Finding | None:
    """The finding about a rank whose main thread waits for a lane that is in a task; None otherwise.

    The site is the line at which the lane is, and the cause what it does there.
    """
    ranks = finding.culprit_ranks
    seen = scene.look.ranks.get(ranks[0]) if len(ranks) == 1 else None
    reading = None if seen is None else scene.readings.get(ranks[0])
    stacks = None if seen is None else seen.own_stacks
    if reading is None or stacks is None or not any(_LANES in frame.file for frame in reading.frames):
        return None
    busy = [(thread, frame) for thread in stacks.threads if (frame := _in_task(thread)) is not None]
    if len(busy) != 1:
        return None
    (thread, frame) = busy[0]
    kind = class_of(thread, scene.line_of)
    task = Reading(
        process=stacks, kind=kind, site=frame.site, function=frame.function, source_line=None, path=(), frames=()
    )
    name = (thread.name or "").removeprefix(LANE)
    behind = f"; {waits(finding.waiting_ranks)} for it" if finding.waiting_ranks else ""
    return replace(
        finding,
        code="H132",
        kind=Kind.HANG,
        cause=task.cause,
        certainty=Certainty.OBSERVED,
        message=f"lane {name} of {ranks_text(ranks)} is in a task at {frame.site} and its main thread waits for it at "
        f"{reading.site}{behind}",
        site=frame.site,
        evidence=(f"lane {name}: {task.text}", *finding.evidence),
        next="look at what the lane's line waits for; give the task a time limit of its own",
    )


def _in_task(thread: ThreadStack) -> Frame | None:
    """The line of a lane's task, the user's where there is one; None for any other thread, and for an idle lane."""
    if not is_lane(thread.frames):
        return None
    own = (frame for frame in thread.frames if not frame.is_native and _LANES not in frame.file)
    inner = next((frame for frame in own if not frame.file.endswith("threading.py")), None)
    return user_frame(thread.frames) or inner
