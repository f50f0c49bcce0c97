"""Asks the judge of `diagnose.live` about snapshots whose rings are read here."""

from functools import partial
from typing import Any

from emberward.diagnose.live import Snapshot
from emberward.diagnose.live import judge_with_progress as judge_pair_with_progress
from emberward.findings import Finding
from emberward.sources.dumps import flights_of

judge_with_progress = partial(judge_pair_with_progress, flights_of=flights_of)


def judge_snapshots(early: Snapshot | None, snapshot: Snapshot, **options: Any) -> tuple[Finding, ...]:
    """The findings of `judge_with_progress`, with its options."""
    return judge_with_progress(early, snapshot, **options)[0]
