"""Keep a run alive: starts its ranks as child processes, watches them, ends them in order. No torch.

A watcher never shares the fate of the watched: everything that trains runs below torch's elastic agent, a child. Each
name's file is imported when it is first asked for: a page of a run needs two of them, and the rest takes half a second.
"""

from typing import TYPE_CHECKING

from emberward._face import face_of

if TYPE_CHECKING:
    from emberward.supervise._act import ACT_AFTER_S, Act, Held, Patience, decide
    from emberward.supervise._attempt import LaunchResult
    from emberward.supervise._command import absolute, agent_command, agent_environment
    from emberward.supervise._council import Council, wish_of
    from emberward.supervise._diary import differences, newest_save
    from emberward.supervise._heartbeat import facts_of, silence_finding
    from emberward.supervise._hosts import Host, Launcher, Team, ask_hosts, hosts_of, launcher_of, pick_hosts, without
    from emberward.supervise._launch import LaunchPlan, launch
    from emberward.supervise._launch_hosts import launch_on_hosts
    from emberward.supervise._left_out import named_host, require_part
    from emberward.supervise._lock import hold_lock, is_abandoned
    from emberward.supervise._mailbox import LetterMailbox
    from emberward.supervise._node_agent import NodeAgent
    from emberward.supervise._nodes import SILENT_S, Node
    from emberward.supervise._notify import Notifier
    from emberward.supervise._overseer import Oversight, key_of
    from emberward.supervise._policy import (
        AttemptOutcome,
        Move,
        Seen,
        StopBy,
        exit_code_of_launch,
        next_move,
        outcome_of,
    )
    from emberward.supervise._post_office import PostOffice
    from emberward.supervise._probe import PeerAddress
    from emberward.supervise._restart import AttemptEnd, Restart, RunEnd, decide_rerun, decide_restart
    from emberward.supervise._run import RunResult, supervise_command
    from emberward.supervise._run_attempt import RunPlan
else:
    __getattr__ = face_of(__name__)

__all__ = [
    "ACT_AFTER_S",
    "SILENT_S",
    "Act",
    "AttemptEnd",
    "AttemptOutcome",
    "Council",
    "Held",
    "Host",
    "LaunchPlan",
    "LaunchResult",
    "Launcher",
    "LetterMailbox",
    "Move",
    "Node",
    "NodeAgent",
    "Notifier",
    "Oversight",
    "Patience",
    "PeerAddress",
    "PostOffice",
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
    "decide",
    "decide_rerun",
    "decide_restart",
    "differences",
    "exit_code_of_launch",
    "facts_of",
    "hold_lock",
    "hosts_of",
    "is_abandoned",
    "key_of",
    "launch",
    "launch_on_hosts",
    "launcher_of",
    "named_host",
    "newest_save",
    "next_move",
    "outcome_of",
    "pick_hosts",
    "require_part",
    "silence_finding",
    "supervise_command",
    "wish_of",
    "without",
]
