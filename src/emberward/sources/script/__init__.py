"""Examines a script that is not ours, unchanged: its ranks run for real, in lock-step, on an in-memory group.

This face needs no torch; ``python -m emberward.sources.script.child FOLDER`` does the work.
"""

from emberward.sources.script._job import Examined, RankEnd, ScriptFolder, ScriptJob

__all__ = ["Examined", "RankEnd", "ScriptFolder", "ScriptJob"]
