"""Keep a run alive: starts its ranks as child processes, watches them, ends them in order. No torch.

A watcher never shares the fate of the watched: everything that trains runs below torch's elastic agent, a child.
"""

from emberward.supervise._command import absolute, agent_command, agent_environment
from emberward.supervise._launch import LaunchPlan, LaunchResult, launch
from emberward.supervise._lock import is_abandoned
from emberward.supervise._policy import Move, Outcome, Seen, StopBy, next_move

__all__ = [
    "LaunchPlan",
    "LaunchResult",
    "Move",
    "Outcome",
    "Seen",
    "StopBy",
    "absolute",
    "agent_command",
    "agent_environment",
    "is_abandoned",
    "launch",
    "next_move",
]
