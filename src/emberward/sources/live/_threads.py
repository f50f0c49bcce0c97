"""A thread that ended with an exception, and the main thread that waits for what it would have done."""

from dataclasses import replace

from emberward.findings import Cause, Certainty, Finding, Kind
from emberward.sources.dumps import StackClass, ranks_text, waits
from emberward.sources.live._scene import Scene


def thread_death(finding: Finding, scene: Scene) -> Finding | None:
    """The finding about a rank that waits for a lock or a queue, when a thread of it has died; None otherwise.

    The recorder notes a thread's last exception and its line: that line is the site.
    """
    ranks = finding.culprit_ranks
    seen = scene.look.ranks.get(ranks[0]) if len(ranks) == 1 else None
    reading = None if seen is None else scene.readings.get(ranks[0])
    if seen is None or seen.ring is None or reading is None or reading.kind is not StackClass.LOCK:
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
