"""``emberward check --nproc N -- script.py``: an unmodified script, examined in lock-step in child processes."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.cli._console import Screen, Waiting
from emberward.cli._machine import require_torch
from emberward.diagnose import LineOf, tie_break_by_text, with_source
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
from emberward.match import Verdict, check, decisions_inside, explain_finding, new_steps, ranks_text
from emberward.processes import ProcessTree
from emberward.sources.dumps import source_lines
from emberward.sources.script import Examined, RankEnd, ScriptFolder, ScriptJob

START_LIMIT_S = 60.0
"""What importing torch and ending the ranks may take beyond the time limit of the examination."""


Start = Callable[[ScriptFolder, ScriptJob, Mapping[str, str]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamineOptions:
    """What the person asked for. `words` are the script and its arguments."""

    words: tuple[str, ...]
    num_ranks: int
    max_steps: int | None
    time_limit_s: float
    environment: Mapping[str, str]


def examine(options: ExamineOptions, screen: Screen, *, start: Start | None = None) -> int:
    """The exit code of an examination: 0 safe as far as it went, 1 an error was found. Blocks until it is over.

    `start` runs the job of a folder to its end, in place of a child process, and gives what went wrong.
    """
    if not options.words or not Path(options.words[0]).is_file():
        raise ConfigError(
            "no script to examine",
            code="C106",
            expected="emberward check --nproc N -- script.py ARGUMENTS",
            found=options.words[0] if options.words else "nothing",
        )
    job = ScriptJob(
        script=options.words[0],
        folder=str(Path.cwd()),
        arguments=options.words[1:],
        num_ranks=options.num_ranks,
        max_steps=options.max_steps,
        time_limit_s=options.time_limit_s,
    )
    require_torch("check of a script, whose ranks call it")
    with ProcessTree() as tree:
        folder = ScriptFolder(path=tree.folder("emberward-check-") / "answers")
        folder.path.mkdir()
        folder.write_job(job)
        if start is None:
            tail = _run_child(tree, folder, job, options.environment, screen)
        else:
            tail = start(folder, job, options.environment)
        if not folder.result.exists():
            raise EmberwardError("the examination itself ended without a result", code="M110", found=tail or "nothing")
        seen = folder.read_result(job)
    _require_no_error_of_ours(seen)
    line_of = source_lines([Path(options.words[0]).resolve().parent])
    verdict = _judge(seen, job, line_of)
    assumptions = _assumptions(seen, verdict)
    not_examined = _not_examined(seen, job, verdict)
    found = [with_source(finding, line_of) for finding in _findings(seen, verdict)]
    findings = (*found, *_notices(not_examined, seen))
    is_proved = verdict is not None and verdict.is_proof and seen.halt is None and not _gaps(seen)
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


def _run_child(
    tree: ProcessTree, folder: ScriptFolder, job: ScriptJob, environment: Mapping[str, str], screen: Screen
) -> str:
    """The end of what the child wrote to standard error. It and all ranks end with the tree."""
    limit_s = job.time_limit_s + START_LIMIT_S
    done = tree.run(
        (sys.executable, "-m", "emberward.sources.script.child", str(folder.path)),
        environment={**environment, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"},
        timeout_s=limit_s,
        on_wait=Waiting(screen, f"examining {job.script} with {job.num_ranks} ranks", limit_s=limit_s),
    )
    if done.code is None:
        return "it did not end in time"
    return done.errors.decode(errors="replace")[-2000:]


def _require_no_error_of_ours(seen: Examined) -> None:
    """Raises RuntimeError when what stands in for torch failed: nothing can be said of the script then."""
    for end in seen.ends:
        if end.status == "ours":
            raise RuntimeError(f"while rank {end.rank} was examined at {end.site}: {end.error}\n{end.traceback}")


def _judge(seen: Examined, job: ScriptJob, line_of: LineOf) -> Verdict | None:
    """The judge's word on what was recorded; None when a rank raised before the program stopped."""
    if seen.halt == "raised":
        return None
    steps = {end.num_steps for end in seen.ends}
    has_all = all(end.status in ("done", "cut") for end in seen.ends) and (
        len(steps) == 1 or all(end.status == "done" for end in seen.ends)
    )
    trace = Trace(world_size=job.num_ranks, events=seen.events, observer=Observer.DRY_RUN)
    is_complete = has_all or seen.halt in ("stuck", "mismatch")
    return check(
        trace,
        is_complete=is_complete,
        with_departing=True,
        tie_break=tie_break_by_text(line_of),
        flows=seen.flows,
        # What a rank does with made-up values it may do wrongly: where it fails then, its program does not end.
        open_ranks=frozenset(end.rank for end in seen.ends if end.is_free and end.status != "done"),
    )


def _findings(seen: Examined, verdict: Verdict | None) -> tuple[Finding, ...]:
    if verdict is None:
        return _raised(seen)
    found = [_with_site(finding, seen) for finding in verdict.findings]
    if seen.halt == "refused":
        # Who comes late is no news where a rank was stopped by us; what is wrong by then is.
        found = [finding for finding in found if finding.severity is Severity.ERROR]
    if seen.halt in ("stuck", "mismatch") and exit_code_of(found) == 0:
        found.append(_stopped(seen))
    if seen.halt == "time":
        found += [_absent(end) for end in seen.ends if end.place is not None]
    return tuple(found)


def _raised(seen: Examined) -> tuple[Finding, ...]:
    """M109 for each error that ranks raised before anything was made up, those of one error and line together."""
    groups: dict[tuple[str | None, str | None], list[RankEnd]] = {}
    for end in seen.ends:
        if end.status in ("raised", "died") and not end.is_free:
            groups.setdefault((end.error, end.site), []).append(end)
    return tuple(
        Finding(
            code="M109",
            severity=Severity.ERROR,
            kind=Kind.CRASH,
            cause=Cause.EXCEPTION if alike[0].status == "raised" else Cause.UNKNOWN,
            certainty=Certainty.OBSERVED,
            message=f"{ranks_text([end.rank for end in alike])} raised {error}"
            if alike[0].status == "raised"
            else f"{ranks_text([end.rank for end in alike])}: {error}",
            culprit_ranks=tuple(end.rank for end in alike),
            site=_decided(seen, alike) or site,
            # The line itself is shown with its text; torch's frames below it tell a user nothing.
            evidence=tuple((alike[0].traceback or "").strip().splitlines()[-4:])
            if site is None
            else (f"raised below {site}, after a decision that no other rank took",)
            if _decided(seen, alike)
            else (),
            next="fix this line, then check again",
        )
        for (error, site), alike in groups.items()
    )


def _decided(seen: Examined, alike: Sequence[RankEnd]) -> str | None:
    """The line at which the user's code, called by a package that then raised, decided what it had not before.

    None when ranks that did not raise decided so too, or when no rank is left to compare with.
    """
    end = alike[0]
    others = {each.rank for each in seen.ends} - {each.rank for each in alike}
    flow = seen.flows.get(end.rank)
    if flow is None or end.site is None or not others or not others <= seen.flows.keys():
        return None
    found = decisions_inside(flow.program, end.site)
    taken = {f"{file}:{line}" for rank in others for file, line in new_steps((seen.flows[rank].program,), "")}
    return next((site for site in reversed(found) if site not in taken), None)


def _absent(end: RankEnd) -> Finding:
    """M115: a rank that made no call for long when the time was over: it has not come back from where it is."""
    place = end.place
    assert place is not None, "the caller chose ends with a place"
    is_loading = place.loader_site is not None
    what = f"its data loader, asked at {place.loader_site}" if is_loading else f"{place.site or 'where it is'}"
    workers = f"; its data workers are at {', '.join(place.workers)}" if place.workers else ""
    how = "and nothing of it runs" if place.is_blocked else "and still runs"
    return Finding(
        code="M115",
        severity=Severity.ERROR if place.is_blocked else Severity.WARNING,
        kind=Kind.HANG,
        cause=Cause.DATALOADER_WORKER if is_loading else Cause.UNKNOWN if place.is_blocked else Cause.CPU_LOOP,
        certainty=Certainty.OBSERVED,
        message=f"rank {end.rank} has not come back from {what} for {place.idle_s:.0f} s, {how}{workers}",
        culprit_ranks=(end.rank,),
        site=place.workers[0] if place.workers else place.site,
        evidence=(f"rank {end.rank}  step {end.num_steps}  at {place.site}",),
        next="find what the line waits for" if place.is_blocked else "raise --time-limit if it may take this long",
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


def _notices(not_examined: tuple[str, ...], seen: Examined) -> list[Finding]:
    """What was left out and what was refused, as notices and not as errors."""
    refused = {f"the effect of what was refused: {line}": line for line in seen.refused}
    rows = [
        ("M111", f"refused: {refused[line]}", "turn the effect off for the check")
        if line in refused
        else ("M110", f"not examined: {line}", _how_to_see(seen) if "what comes after" in line else "see docs/check.md")
        for line in not_examined
    ]
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
        for code, message, next_step in rows
    ]


def _how_to_see(seen: Examined) -> str:
    """What makes the examination go further: the limit that ended it, or what stopped the program itself."""
    if seen.halt == "raised":
        return "fix the exception, then check again"
    if seen.halt == "refused":
        return "turn off what was refused for the check"
    return "raise --time-limit" if seen.halt == "time" else "raise --max-steps"


def _assumptions(seen: Examined, verdict: Verdict | None) -> tuple[str, ...]:
    lines = list(() if verdict is None else verdict.assumptions)
    lines.append("values are those of this machine's CPU, with the files that lie here")
    if seen.no_sandbox is not None:
        lines.append(
            "programs that may write were refused, and writes were held in a layer of files: "
            f"no view of the machine of its own ({seen.no_sandbox})"
        )
    if seen.num_sleeps:
        lines.append(f"{seen.num_sleeps} sleeps were skipped")
    if seen.halt in ("stuck", "mismatch"):
        lines.append("what the ranks call after the program stopped is known with made-up values")
    return tuple(lines)


def _gaps(seen: Examined) -> tuple[str, ...]:
    """Communication that was made and that nobody compared: with it there is no proof."""
    return tuple(dict.fromkeys(line for end in seen.ends for line in end.not_recorded))


def _not_examined(seen: Examined, job: ScriptJob, verdict: Verdict | None) -> tuple[str, ...]:
    found = []
    if seen.halt == "time":
        steps = ", ".join(f"rank {end.rank} step {end.num_steps}" for end in seen.ends[:8])
        found.append(f"what comes after {job.time_limit_s:.0f} s ({steps})")
    if any(end.status == "cut" for end in seen.ends):
        found.append(f"what comes after optimizer step {job.max_steps}")
    if seen.halt == "raised":
        found.append("what comes after the exception")
    found += [
        f"what comes after {end.site or 'the line'} on rank {end.rank}: {end.error}"
        for end in seen.ends
        if end.status == "refused"
    ]
    found += [*_gaps(seen), *(() if verdict is None else verdict.not_compared)]
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
        if all(end.status == "done" for end in seen.ends):
            lines.append(f"examined to the script's end: {_steps_text(seen.ends)}")
    elif exit_code_of(findings) == 0 and (verdict is None or verdict.is_safe):
        lines.append(f"no error in what was examined, which is not all ({size})")
    else:
        lines.append(f"the program does not run to its end ({size})")
    lines += ["assumed", *(f"  {line}" for line in assumptions)]
    if not_examined:
        lines += ["not examined", *(f"  {line}" for line in not_examined)]
    return lines


def _steps_text(ends: Sequence[RankEnd]) -> str:
    """``12 optimizer steps on each rank``, or the steps of each rank where they differ."""
    steps = {end.num_steps for end in ends}
    if len(steps) == 1:
        count = steps.pop()
        if count == 0:
            return "it makes no optimizer step"
        return f"{count} optimizer step{'' if count == 1 else 's'} on each rank"
    return "optimizer steps " + ", ".join(f"rank {end.rank}: {end.num_steps}" for end in ends)
