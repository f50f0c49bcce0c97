"""Concludes about a job that still runs, from two snapshots of it: who stands still, why, and whether it can go on.

`judge_with_progress` is the judge, pure; a `Look` is plain data (`Look.to_json`), and those of several hosts are joined
by `join_looks`. `sources.live` takes them.
"""

from emberward.diagnose.live._judge import judge_with_progress
from emberward.diagnose.live._look import Look, Moment, OpenCall, RankLook, RingFacts, join_looks
from emberward.diagnose.live._process import ProcessFacts, ProcessState, ThreadFacts, WaitingIn
from emberward.diagnose.live._scene import FlightsOf, Scene

__all__ = [
    "FlightsOf",
    "Look",
    "Moment",
    "OpenCall",
    "ProcessFacts",
    "ProcessState",
    "RankLook",
    "RingFacts",
    "Scene",
    "ThreadFacts",
    "WaitingIn",
    "join_looks",
    "judge_with_progress",
]
