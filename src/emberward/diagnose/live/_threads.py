"""A lane in a long task, for which the main thread waits."""

from dataclasses import replace

from emberward.diagnose import Frame, Reading, ThreadStack, class_of, is_lane, ranks_text, user_frame, waits
from emberward.diagnose.live._pair import SnapshotPair
from emberward.findings import Certainty, Finding, Kind

_TOLD = frozenset({"L102", "H125"})
_LANES = "emberward/lanes/"
LANE = "lane "
"""How the name of a lane's thread begins (`emberward.lanes`)."""


def of_lanes(finding: Finding, pair: SnapshotPair) -> Finding:
    """The finding; of a rank whose main thread waits for a lane that is in a task, the one about that task.

    The site is the line at which the lane is, and the cause what it does there. How a rank ended, or that it was
    stopped, tells more.
    """
    ranks = () if finding.code in _TOLD else finding.culprit_ranks
    seen = pair.snapshot.ranks.get(ranks[0]) if len(ranks) == 1 else None
    reading = None if seen is None else pair.readings.get(ranks[0])
    stacks = None if seen is None else seen.own_stacks
    if reading is None or stacks is None or not any(_LANES in frame.file for frame in reading.frames):
        return finding
    busy = [(thread, frame) for thread in stacks.threads if (frame := _in_task(thread)) is not None]
    if len(busy) != 1:
        return finding
    (thread, frame) = busy[0]
    kind = class_of(thread, pair.line_of)
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
