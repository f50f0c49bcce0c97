"""Judges a job that runs now: who stands still, why, and whether it can go on by itself. No torch.

`Watcher` watches a folder of rings; `find_job` and `snapshot_of_job` look at a job that was not started by us;
`judge_snapshots` asks the judge, which is in `diagnose.live`.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.sources.live._explain import LiveExplanation, explain_pids
    from emberward.sources.live._find import RANK_NAMES, FoundJob, FoundRank, find_job, rank_in
    from emberward.sources.live._judge import judge_snapshots, judge_with_progress
    from emberward.sources.live._outside import owner_of_line, record_stacks, stacks_of
    from emberward.sources.live._process import (
        descendants,
        environment_of,
        parents,
        read_process_facts,
    )
    from emberward.sources.live._skew import skew_findings
    from emberward.sources.live._slower import marks_beside
    from emberward.sources.live._stragglers import OwnRows
    from emberward.sources.live._take import newest_rings, snapshot_of_job, snapshot_of_rings
    from emberward.sources.live._watcher import Watcher, WatchReport, resumed_finding
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "RANK_NAMES",
    "FoundJob",
    "FoundRank",
    "LiveExplanation",
    "OwnRows",
    "WatchReport",
    "Watcher",
    "descendants",
    "environment_of",
    "explain_pids",
    "find_job",
    "judge_snapshots",
    "judge_with_progress",
    "marks_beside",
    "newest_rings",
    "owner_of_line",
    "parents",
    "rank_in",
    "read_process_facts",
    "record_stacks",
    "resumed_finding",
    "skew_findings",
    "snapshot_of_job",
    "snapshot_of_rings",
    "stacks_of",
]
