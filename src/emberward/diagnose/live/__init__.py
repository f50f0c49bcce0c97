"""Concludes about a job that still runs, from two snapshots of it: who stands still, why, and whether it can go on.

`judge_with_progress` is the judge, pure; a `Snapshot` is plain data (`Snapshot.to_json`), and those of several hosts
are joined by `join_snapshots`. `sources.live` takes them.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.diagnose.live._judge import judge_with_progress
    from emberward.diagnose.live._pair import FlightsOf, SnapshotPair
    from emberward.diagnose.live._process import ProcessFacts, ProcessState, ThreadFacts, WaitingIn
    from emberward.diagnose.live._snapshot import Moment, OpenCall, RankSnapshot, RingFacts, Snapshot, join_snapshots
    from emberward.diagnose.live._wire import from_plain, to_plain
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "FlightsOf",
    "Moment",
    "OpenCall",
    "ProcessFacts",
    "ProcessState",
    "RankSnapshot",
    "RingFacts",
    "Snapshot",
    "SnapshotPair",
    "ThreadFacts",
    "WaitingIn",
    "from_plain",
    "join_snapshots",
    "judge_with_progress",
    "to_plain",
]
