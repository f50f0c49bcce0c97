"""``emberward check --nproc N -- script.py``: an unmodified script, examined in lock-step in child processes."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.cli._console import Screen
from emberward.events import Observer, Trace
from emberward.findings import (
    Cause,
    Certainty,
    ConfigError,
    EmberwardError,
    Finding,
    Kind,
    Severity,
    exit_code_of,
    require_code,
)
from emberward.match import Outcome, Verdict, check, explain_finding
from emberward.sources.script import Examined, RankEnd, ScriptFolder, ScriptJob

START_LIMIT_S = 60.0
"""What importing torch and ending the ranks may take beyond the time limit of the examination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamineOptions:
    """What the person asked for. `words` are the script and its arguments."""

    words: tuple[str, ...]
    num_ranks: int
    max_steps: int | None
    time_limit_s: float
    environment: Mapping[str, str]


def examine(options: ExamineOptions, screen: Screen) -> int:
    """The exit code of an examination: 0 safe as far as it went, 1 an error was found. Blocks until it is over."""
    if not options.words or not Path(options.words[0]).is_file():
        raise ConfigError(
            "no script to examine",
            code="C106",
            expected="emberward check --nproc N -- script.py ARGUMENTS",
            found=options.words[0] if options.words else "nothing",
        )
    job = ScriptJob(
        script=Path(options.words[0]).name,
        arguments=options.words[1:],
        num_ranks=options.num_ranks,
        max_steps=options.max_steps,
        time_limit_s=options.time_limit_s,
    )
    with tempfile.TemporaryDirectory(prefix="emberward-check-") as scratch:
        folder = ScriptFolder(path=Path(scratch))
        folder.copy_script(Path(options.words[0]).resolve())
        folder.write_job(job)
        tail = _run_child(folder, job, options.environment)
        if not folder.result.exists():
            raise EmberwardError("the examination itself ended without a result", code="M110", found=tail or "nothing")
        seen = folder.read_result(job)
    verdict = _judge(seen, job)
    assumptions = _assumptions(seen, verdict)
    not_examined = _not_examined(seen, job)
    findings = (*_findings(seen, verdict), *_notices(seen, not_examined))
    is_proved = verdict is not None and verdict.is_safe and verdict.outcome is Outcome.SAFE and seen.halt is None
    screen.say("\n".join(_lines(seen, findings, assumptions, not_examined, is_proved=is_proved, verdict=verdict)))
    screen.document(
        findings,
        proved=is_proved,
        outcome=None if verdict is None else verdict.outcome.value,
        assumptions=list(assumptions),
        not_examined=list(not_examined),
        refused=list(seen.refused),
        num_ranks=job.num_ranks,
        num_events=sum(map(len, seen.events.values())),
        num_steps=[end.num_steps for end in seen.ends],
        seconds=round(seen.seconds, 2),
    )
    return exit_code_of(findings)


def _run_child(folder: ScriptFolder, job: ScriptJob, environment: Mapping[str, str]) -> str:
    """The end of what the child wrote to standard error. It and all ranks have ended afterwards."""
    child = subprocess.Popen(
        (sys.executable, "-m", "emberward.sources.script.child", str(folder.path)),
        env={**environment, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, text = child.communicate(timeout=job.time_limit_s + START_LIMIT_S)
    except subprocess.TimeoutExpired:
        text = "it did not end in time"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return text[-2000:]


def _judge(seen: Examined, job: ScriptJob) -> Verdict | None:
    """The judge's word on what was recorded; None when a rank raised before the program stopped."""
    if any(end.status in ("raised", "died") for end in seen.ends) and seen.halt == "raised":
        return None
    steps = {end.num_steps for end in seen.ends}
    has_all = all(end.status in ("done", "cut") for end in seen.ends) and (
        len(steps) == 1 or all(end.status == "done" for end in seen.ends)
    )
    trace = Trace(world_size=job.num_ranks, events=seen.events, observer=Observer.DRY_RUN)
    return check(trace, is_complete=has_all or seen.halt in ("stuck", "mismatch"))


def _findings(seen: Examined, verdict: Verdict | None) -> tuple[Finding, ...]:
    if verdict is None:
        return tuple(_raised(end) for end in seen.ends if end.status in ("raised", "died"))[:1]
    found = [_with_site(finding, seen) for finding in verdict.findings]
    if seen.halt in ("stuck", "mismatch") and exit_code_of(found) == 0:
        found.append(_stopped(seen))
    return tuple(found)


def _raised(end: RankEnd) -> Finding:
    return Finding(
        code="M109",
        severity=Severity.ERROR,
        kind=Kind.CRASH,
        cause=Cause.EXCEPTION,
        certainty=Certainty.OBSERVED,
        message=f"rank {end.rank} raised {end.error}",
        culprit_ranks=(end.rank,),
        site=end.site,
        evidence=tuple((end.traceback or "").strip().splitlines()[-4:]),
        next="repair the line, then check again",
    )


def _with_site(finding: Finding, seen: Examined) -> Finding:
    """The finding with a line: a rank that ended early has none of its own, so its last call stands for it."""
    if finding.site is not None or not finding.culprit_ranks:
        return finding
    events = seen.events.get(finding.culprit_ranks[0], ())
    last = next((event.site for event in reversed(events) if event.site is not None), None)
    return finding if last is None else replace(finding, site=str(last))


def _stopped(seen: Examined) -> Finding:
    """What was seen when the judge cannot say why: the ranks waited for one another."""
    return Finding(
        code="M104",
        severity=Severity.ERROR,
        kind=Kind.DEADLOCK,
        cause=Cause.UNKNOWN,
        certainty=Certainty.OBSERVED,
        message=f"the program stopped: {len(seen.waiting)} ranks wait and none can go on",
        waiting_ranks=tuple(sorted(seen.waiting)),
        evidence=tuple(f"rank {rank} waits at {site}" for rank, site in sorted(seen.waiting.items())),
        next="compare what these lines wait for",
    )


def _notices(seen: Examined, not_examined: tuple[str, ...]) -> list[Finding]:
    """What was left out and what was refused, said aloud but no error."""
    refused = [("M111", f"refused: {line}", "turn the effect off for the check") for line in seen.refused]
    cut = not_examined[: len(not_examined) - len(seen.refused)]
    left_out = [("M110", f"not examined: {line}", "raise --max-steps or --time-limit") for line in cut]
    return [
        Finding(
            code=code,
            severity=Severity.NOTICE,
            kind=require_code(code).kind,
            cause=Cause.NONE,
            certainty=Certainty.OBSERVED,
            message=message,
            next=next_step,
        )
        for code, message, next_step in (*left_out, *refused)
    ]


def _assumptions(seen: Examined, verdict: Verdict | None) -> tuple[str, ...]:
    lines = list(() if verdict is None else verdict.assumptions)
    lines.append("values are those of this machine's CPU, with the files of the script's folder")
    if seen.num_sleeps:
        lines.append(f"{seen.num_sleeps} sleeps were skipped")
    if seen.halt is not None:
        lines.append("what the ranks call after the program stopped is known with made-up values")
    return tuple(lines)


def _not_examined(seen: Examined, job: ScriptJob) -> tuple[str, ...]:
    found = []
    if seen.halt == "time":
        steps = ", ".join(f"rank {end.rank} step {end.num_steps}" for end in seen.ends[:8])
        found.append(f"what comes after {job.time_limit_s:.0f} s ({steps})")
    if any(end.status == "cut" for end in seen.ends):
        found.append(f"what comes after optimizer step {job.max_steps}")
    if seen.halt == "raised":
        found.append("what comes after the exception")
    found += [f"the effect of what was refused: {line}" for line in seen.refused]
    return tuple(found)


def _lines(
    seen: Examined,
    findings: tuple[Finding, ...],
    assumptions: tuple[str, ...],
    not_examined: tuple[str, ...],
    *,
    is_proved: bool,
    verdict: Verdict | None,
) -> list[str]:
    num_events = sum(map(len, seen.events.values()))
    size = f"{len(seen.ends)} ranks, {num_events} events; {seen.seconds:.1f} s"
    lines = [explain_finding(finding) for finding in findings]
    if is_proved and seen.halt is None:
        so_far = " as far as it was examined" if not_examined else ""
        lines.append(f"proved{so_far}: every call of every rank ends ({size})")
    elif exit_code_of(findings) == 0 and (verdict is None or verdict.is_safe):
        lines.append(f"no error in what was examined, which is not all ({size})")
    else:
        lines.append(f"the program does not run to its end ({size})")
    lines += ["assumed", *(f"  {line}" for line in assumptions)]
    if not_examined:
        lines += ["not examined", *(f"  {line}" for line in not_examined)]
    return lines
