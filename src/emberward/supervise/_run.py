"""Supervises any command: makes attempts until it ends well or the policy says no."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from emberward.findings import Finding
from emberward.runs import require_no_kill_switch
from emberward.supervise._attempt import OnFinding
from emberward.supervise._left_out import keep_out
from emberward.supervise._lock import hold_lock
from emberward.supervise._nodes import Node
from emberward.supervise._overseer import Overseer, own_finding
from emberward.supervise._policy import AttemptOutcome, StopBy
from emberward.supervise._restart import RunEnd, decide_rerun
from emberward.supervise._run_attempt import CommandAttempt, RunPlan, shell_code
from emberward.supervise._signals import SignalDesk


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """How a supervised command ended: its own exit code (128 + n for signal n), and what was found."""

    exit_code: int
    outcome: AttemptOutcome
    num_attempts: int
    findings: tuple[Finding, ...]
    why: str
    stop_by: StopBy | None = None


def supervise_command(plan: RunPlan, *, on_finding: OnFinding) -> RunResult:
    """How the command ended, after as many attempts as the policy allows; blocks. Call it from the main thread.

    Signals to us are passed on. `on_finding` is called with each finding when it is seen. Raises ConfigError C108 when
    the kill switch is set, C112 when the command cannot be started.
    """
    if plan.kill_switch is not None:
        require_no_kill_switch(plan.kill_switch)
    ends: list[RunEnd] = []
    with (
        SignalDesk() as desk,
        hold_lock(plan.folder, launcher_pid=os.getpid(), job=plan.environment.get("SLURM_JOB_ID")),
    ):
        overseer = Overseer(
            plan.folder, plan.oversight, environment=plan.environment, around_start=desk.passing_on_the_mask
        )
        if overseer.council is not None:
            overseer.council.join()
        why = "started"
        outcome = AttemptOutcome.FAILED
        try:
            while True:
                attempt = CommandAttempt(plan, overseer, desk, on_finding)
                result = attempt.run(why)
                ends.append(result)
                outcome = result.outcome
                rerun = decide_rerun(ends, max_restarts=plan.max_restarts)
                if rerun.is_wanted and overseer.council is not None:
                    rerun, named = overseer.council.next_attempt(result.findings, rerun, desk)
                    _keep_out(overseer.council.node, named, overseer)
                if not rerun.is_wanted:
                    break
                why = rerun.why
        finally:
            overseer.close(state=outcome.value)
            if overseer.council is not None:
                overseer.council.leave()
    return RunResult(
        exit_code=shell_code(ends[-1].exit_code),
        outcome=ends[-1].outcome,
        num_attempts=len(ends),
        findings=ends[-1].findings,
        why=rerun.why,
        stop_by=attempt.stop_by,
    )


def _keep_out(node: Node, named: Sequence[Finding], overseer: Overseer) -> None:
    """Keeps the hosts that were left out from later starts. A folder that cannot be written to is told, and no more."""
    for finding in named:
        try:
            keep_out(node, finding)
        except OSError as error:
            what = f"{finding.hosts[0]} could not be left out of later starts: {error}"
            overseer.report(own_finding(what, f"--exclude {finding.hosts[0]}"))
