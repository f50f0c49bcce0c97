"""Keep a run alive: starts its ranks as child processes, watches them, ends them in order. No torch.

A watcher never shares the fate of the watched: everything that trains runs below torch's elastic agent, a child.
"""

from emberward.supervise._act import ACT_AFTER_S, Patience
from emberward.supervise._attempts import newest_save
from emberward.supervise._command import absolute, agent_command, agent_environment
from emberward.supervise._heartbeat import facts_of, silence_finding
from emberward.supervise._hosts import Host, Launcher, Team, ask_hosts, hosts_of, launcher_of, pick_hosts, without
from emberward.supervise._launch import LaunchPlan, LaunchResult, launch
from emberward.supervise._launch_hosts import launch_on_hosts
from emberward.supervise._left_out import require_part
from emberward.supervise._lock import hold_lock, is_abandoned
from emberward.supervise._nodes import Node
from emberward.supervise._notify import Notifier
from emberward.supervise._overseer import Oversight
from emberward.supervise._policy import Move, Outcome, Seen, StopBy, next_move
from emberward.supervise._restart import AttemptEnd, Restart, RunEnd, decide_rerun, decide_restart
from emberward.supervise._run import RunResult, supervise_command
from emberward.supervise._run_attempt import RunPlan

__all__ = [
    "ACT_AFTER_S",
    "AttemptEnd",
    "Host",
    "LaunchPlan",
    "LaunchResult",
    "Launcher",
    "Move",
    "Node",
    "Notifier",
    "Outcome",
    "Oversight",
    "Patience",
    "Restart",
    "RunEnd",
    "RunPlan",
    "RunResult",
    "Seen",
    "StopBy",
    "Team",
    "absolute",
    "agent_command",
    "agent_environment",
    "ask_hosts",
    "decide_rerun",
    "decide_restart",
    "facts_of",
    "hold_lock",
    "hosts_of",
    "is_abandoned",
    "launch",
    "launch_on_hosts",
    "launcher_of",
    "newest_save",
    "next_move",
    "pick_hosts",
    "require_part",
    "silence_finding",
    "supervise_command",
    "without",
]
