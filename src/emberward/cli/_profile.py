"""``emberward profile``: where the time of a step goes, for a recipe, a run that was profiled, or any command."""

import json
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption, find_run, require_run
from emberward.cli._profile_pid import profile_pid
from emberward.cli._run import name_of, program_beside
from emberward.findings import ConfigError, Finding
from emberward.lens import (
    FIRST_LANE,
    OPERATIONS_SUFFIX,
    PHASES,
    UNFINISHED_SUFFIX,
    FormTimes,
    Profile,
    RankCalls,
    RankOperations,
    RankSamples,
    RankTimeline,
    Rate,
    Sources,
    Span,
    budget_of,
    changes_of,
    compare_parts,
    compared_finding,
    find_samples,
    finding_page,
    form_key,
    forms_to_measure,
    middle_step_s,
    missing_part,
    most_used_dtype,
    own_by_step,
    page_text,
    parts_around,
    parts_by_step,
    profile_of,
    ranks_of_job,
    read_operations,
    read_samples,
    slowdown_finding,
    timeline,
)
from emberward.lens import STEPS as STEPS_TRACK
from emberward.perf import peak_of
from emberward.report import RunFolder, events_beside, read_json, read_lines, watched_own, watched_steps, write_json
from emberward.runs import new_id
from emberward.sources.attach import lens_environment
from emberward.sources.forms import measured_forms
from emberward.sources.live import marks_beside
from emberward.sources.peak import measured_peak
from emberward.sources.ring import MarkKind, RingView, find_rings, read_ring
from emberward.supervise import Oversight, Patience, RunPlan, absolute, differences, supervise_command

WARMUP = 5
STEPS = 50
MAX_STEPS = 1000
"""Bounds what a rank keeps: a pair of numbers for each stack and step."""
MAX_WATCHED = 4096
"""Steps of a watched program in which a change is looked for: its watcher keeps as many one by one."""
STDERR = 2
_RECIPE = re.compile(r".*\.(py|ya?ml|toml)(:\w+)?$|^[\w.]+:\w+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions:
    """What the person asked for."""

    words: tuple[str, ...]
    command: tuple[str, ...]
    warmup: int
    num_steps: int
    ranks: int | None
    runs: Path
    trace: Path | None
    pid: int | None
    environment: Mapping[str, str]


def profile_verb(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="A recipe and its keys, a run that was profiled, or -- and a command."),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, max=MAX_STEPS, help="Steps to measure.")] = STEPS,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Steps to pass over first.")] = WARMUP,
    ranks: Annotated[int | None, typer.Option("--ranks", min=1, help="Number of ranks of a recipe.")] = None,
    trace: Annotated[
        Path | None, typer.Option("--trace", help="Write a timeline here that Chrome and Perfetto open.")
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="A process of a job that runs: sampled from outside.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Say where the time of a step goes: what stalls it, at which line, what it costs, what to change.

    The program runs unchanged, to its own end; its output, results and exit code stay its own.
    """
    given = (*(words or ()), *context.args)
    typed = sys.argv[1:]
    is_command = "--" in typed
    command = tuple(typed[typed.index("--") + 1 :]) if is_command else ()
    options = ProfileOptions(
        words=given[: len(given) - len(command)],
        command=command,
        warmup=warmup,
        num_steps=steps,
        ranks=ranks,
        runs=runs,
        trace=trace,
        pid=pid,
        environment=dict(os.environ),
    )
    guarded(lambda screen: profile(options, screen), is_json=is_json)


def profile(options: ProfileOptions, screen: Screen) -> int:
    """The exit code of the profiled program, or 0 for a run that was profiled before. Blocks until it ends."""
    if options.pid is not None:
        if options.words or options.command:
            raise _not_understood(f"{(*options.words, *options.command)[0]} beside --pid")
        return profile_pid(options.pid, options.num_steps, screen)
    if options.command:
        if options.words:
            raise _not_understood(f"{options.words[0]} before --")
        return _profile_command(options, options.command, name_of(options.command), screen)
    if not options.words:
        raise _not_understood("nothing")
    word = options.words[0]
    run = find_run(Path(word), options.runs)
    if run is not None and len(options.words) == 2 and find_run(Path(options.words[1]), options.runs) is not None:
        return _compare(options, screen)
    if run is not None and not _RECIPE.match(word):
        folder = RunFolder(path=require_run(Path(word), options.runs, verb="profile"))
        return _show(folder, screen, warmup=options.warmup, exit_code=0, trace=options.trace)
    train = (sys.executable, "-m", "emberward", "train", *options.words, "--fresh", "--runs", str(options.runs))
    count = () if options.ranks is None else ("--ranks", str(options.ranks))
    return _profile_command(options, (*train, *count), f"profile-{Path(word.partition(':')[0]).stem}", screen)


def _not_understood(found: str) -> ConfigError:
    return ConfigError(
        "there is nothing to profile",
        code="C113",
        expected="a recipe, a run, --pid and a process, or -- and a command",
        found=found,
        next="emberward profile -- torchrun --nproc-per-node 2 train.py",
    )


def _profile_command(options: ProfileOptions, command: tuple[str, ...], name: str, screen: Screen) -> int:
    folder = RunFolder(path=absolute(options.runs) / name / new_id())
    folder.lens.mkdir(parents=True, exist_ok=True)
    own = (program_beside(command[0], options.environment.get("PATH")), *command[1:])
    write_json(folder.command, {"command": list(own), "folder": str(Path.cwd())})
    write_json(folder.lens / "asked.json", {"warmup": options.warmup, "steps": options.num_steps})
    environment = lens_environment(
        options.environment, folder=folder.lens, warmup=options.warmup, num_steps=options.num_steps
    )
    plan = RunPlan(
        folder=folder,
        command=own,
        environment=environment,
        oversight=Oversight(patience=Patience(act_after_s=0.0)),
        stdout=STDERR if screen.is_json else None,
    )
    result = supervise_command(plan, on_finding=lambda finding: None)
    return _show(
        folder, screen, warmup=options.warmup, exit_code=result.exit_code, trace=options.trace, others=result.findings
    )


def _show(
    folder: RunFolder,
    screen: Screen,
    *,
    warmup: int,
    exit_code: int,
    trace: Path | None,
    others: tuple[Finding, ...] = (),
) -> int:
    """Prints the page and the document of what the folder holds; the exit code."""
    profile, views = read_profile(folder, warmup=warmup, can_measure=True)
    slower = _changes_told(folder)
    # Of slower steps the samples tell more than what the watcher said while they were taken.
    findings = (*(each for each in others if each.code != "P104"), *profile.findings, *slower)
    screen.say(page_text(profile))
    for finding in slower:
        screen.say(finding_page(finding))
    screen.say(f"\nprofile {folder.path}")
    if trace is not None:
        write_trace(trace, views, findings)
        screen.say(f"trace   {trace}      (open it at ui.perfetto.dev)")
    screen.document(findings, run=str(folder.path), exit_code=exit_code, profile=profile.to_json())
    if folder.lens.is_dir() and screen.written is not None:
        with suppress(OSError):
            write_json(folder.profile, screen.written)  # for the run's page; a run that one may only read keeps none
    return exit_code


def _samples_of(folder: RunFolder) -> tuple[tuple[RankSamples, ...], list[Finding]]:
    """The newest samples of each rank, and what cannot be read."""
    ranks: list[RankSamples] = []
    problems: list[Finding] = []
    for path in find_samples(folder.lens):
        try:
            ranks.append(read_samples(path))
        except (OSError, ValueError, KeyError, IndexError, TypeError, json.JSONDecodeError) as error:
            problems.append(missing_part(f"{path.name} on {socket.gethostname()} cannot be read: {error}"))
    return ranks_of_job(ranks), problems


def _operations_of(folder: RunFolder, stems: set[str]) -> tuple[tuple[RankOperations, ...], list[Finding]]:
    """What was observed of the ranks whose samples are read, and what cannot be read."""
    ranks: list[RankOperations] = []
    problems: list[Finding] = []
    for path in sorted(folder.lens.glob(f"*{OPERATIONS_SUFFIX}")):
        if path.stem in stems:
            try:
                ranks.append(read_operations(path))
            except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
                problems.append(missing_part(f"{path.name} cannot be read: {error}"))
    for path in sorted(folder.lens.glob(f"*{UNFINISHED_SUFFIX}")):
        if path.stem in stems:
            problems.append(missing_part(f"{path.name} was not written to its end: its rank's operations"))
    return tuple(sorted(ranks, key=lambda rank: rank.rank)), problems


def _peak_of(folder: RunFolder, ranks: Sequence[RankOperations], *, can_measure: bool) -> Rate | None:
    """A rank's peak: the maker's where the device is known, else what this machine reached after the job, kept."""
    if not ranks:
        return None
    known = peak_of(ranks[0].device_name)
    if known is not None:
        return Rate(flops_per_s=1e12 * known.tflops, name=f"{ranks[0].device_name}, 16 bit: {known.source}")
    kept = read_json(folder.lens / "peak.json")
    if kept is None and can_measure and ranks[0].device == "cpu":
        kept = measured_peak(threads=ranks[0].threads, ranks=len(ranks), dtype=most_used_dtype(ranks))
        if kept is not None:
            write_json(folder.lens / "peak.json", kept)
    return None if kept is None else Rate(flops_per_s=float(kept["flops_per_s"]), name=str(kept["of"]))


def _forms_of(folder: RunFolder, ranks: Sequence[RankOperations], *, can_measure: bool) -> Mapping[str, FormTimes]:
    """What operations take in another form, measured on this machine after the job, kept."""
    kept = read_json(folder.lens / "forms.json")
    if kept is None and can_measure and all(rank.device == "cpu" for rank in ranks):
        forms = forms_to_measure(ranks)
        measured = measured_forms(forms, threads=ranks[0].threads, ranks=len(ranks)) if forms else []
        kept = {form_key(form): times for form, times in zip(forms, measured, strict=False)}
        if kept:
            write_json(folder.lens / "forms.json", kept)
    return {} if kept is None else {key: FormTimes(**times) for key, times in kept.items()}


def read_profile(folder: RunFolder, *, warmup: int, can_measure: bool = False) -> tuple[Profile, tuple[RingView, ...]]:
    """The profile that a run's folder holds, and its rings. Files that cannot be read are findings.

    `can_measure`: whether the peak of this machine's processors, and what operations take in another form, may be
    measured where the folder does not have it.
    """
    chosen, problems = _samples_of(folder)
    asked = read_json(folder.lens / "asked.json")
    if asked is not None and isinstance(asked.get("warmup"), int):
        warmup = asked["warmup"]
    stems = {_stem(rank) for rank in chosen}
    kept = find_rings(folder.lens)
    rings = [path for path in kept if path.stem in stems] or (_kept_rings(folder) if chosen else kept)
    views = [view for path in rings if (view := read_ring(path, folds_waits=False)).rank is not None]
    problems += [missing_part(text, ranks=(view.rank or 0,)) for view in views for text in view.problems]
    operations, unread = _operations_of(folder, stems)
    profile = profile_of(
        chosen,
        Sources(),
        asked_warmup=warmup,
        calls=[_calls_of(view) for view in views],
        operations=operations,
        peak=_peak_of(folder, operations, can_measure=can_measure),
        forms=_forms_of(folder, operations, can_measure=can_measure),
        others=[*problems, *unread],
        hosts=_hosts_of(views),
        beside=lambda step: marks_beside(step, {view.rank or 0: view for view in views}, _spans_of(chosen)),
    )
    return profile, tuple(views)


def _changes_told(folder: RunFolder) -> list[Finding]:
    """What the lengths of all steps say that a recipe's run wrote down, or its watcher, with their parts."""
    rows = [row for row in read_lines(folder.metrics) if "step" in row and "step_s" in row]
    if not rows and not folder.lens.is_dir():  # Steps of which some were profiled are not of one length.
        rows = watched_steps(folder, newest=MAX_WATCHED)[0]
    lengths = {row["step"]: float(row["step_s"]) for row in rows}
    names = {key for row in rows for key in row if key.endswith("_s") and key not in _NO_PARTS}
    parts = {
        name.removesuffix("_s"): {row["step"]: float(row[name]) for row in rows if isinstance(row.get(name), float)}
        for name in names
    }
    files = [read_json(path) or {} for path in sorted(folder.ranks.glob("rank*.json"))]
    hosts = {row["rank"]: row["host"] for row in files if "rank" in row and "host" in row}
    return [
        slowdown_finding(
            change, parts_around(change, parts), hosts=hosts, beside=events_beside(folder, change.first_step)
        )
        for change in changes_of(lengths, watched_own(folder))
    ]


_NO_PARTS = frozenset({"step_s", "samples_per_s", "tokens_per_s"})


def _compare(options: ProfileOptions, screen: Screen) -> int:
    """Says what the second of two profiled runs spends more than the first."""
    folders = [RunFolder(path=require_run(Path(word), options.runs, verb="profile")) for word in options.words]
    ranks = [_samples_of(folder)[0] for folder in folders]
    before_s, now_s = (middle_step_s(each) for each in ranks)
    if before_s is None or now_s is None:
        missing = folders[0] if before_s is None else folders[1]
        raise ConfigError(
            "a run that was not profiled cannot be compared",
            code="C107",
            where=str(missing.path),
            expected="samples of its steps in lens/",
            found="none",
            next="emberward profile -- torchrun --nproc-per-node 2 train.py",
        )
    sources = Sources()
    budgets = [budget_of(parts_by_step(each, sources)) for each in ranks]
    parts = compare_parts(budgets[0], budgets[1])
    own = [budget_of({str(rank): by_step for rank, by_step in own_by_step(each).items()}) for each in ranks]
    finding = compared_finding(
        before_s,
        now_s,
        parts,
        own_s=[{int(rank): own_s for rank, own_s in each.items()} for each in own],
        beside=differences(*folders),
    )
    screen.say(f"step    {1000 * before_s:.2f} ms in the first run, {1000 * now_s:.2f} ms in the second")
    if finding is None:
        screen.say("the second run is not slower by 3% or more")
    else:
        screen.say(finding_page(finding))
    rows = [{"part": p.name, "before_ms": 1000 * p.before_s, "now_ms": 1000 * p.now_s} for p in parts]
    screen.document([] if finding is None else [finding], step_ms=[1000 * before_s, 1000 * now_s], parts=rows)
    return 0


def _kept_rings(folder: RunFolder) -> list[Path]:
    """The rings of the last attempt of a run that was not profiled: `run` and `train` keep them at the end."""
    attempts = sorted(path for path in (folder.path / "events").glob("attempt-*") if path.is_dir())
    return list(find_rings(attempts[-1])) if attempts else []


def _hosts_of(views: Sequence[RingView]) -> dict[int, str]:
    return {view.rank or 0: view.host for view in views if view.host is not None}


def _spans_of(ranks: Sequence[RankSamples]) -> dict[int, dict[int, tuple[int, int]]]:
    """Rank -> step -> when it was, on the host's monotonic clock in nanoseconds."""
    return {
        rank.rank: {
            rank.first_step + i: (round(1e9 * low), round(1e9 * high))
            for i, (low, high) in enumerate(pairwise(rank.bounds_s))
        }
        for rank in ranks
    }


def _calls_of(view: RingView) -> RankCalls:
    return RankCalls(rank=view.rank or 0, events=view.events, sequences=view.sequences, is_complete=view.is_complete)


def write_trace(path: Path, views: Sequence[RingView], findings: Sequence[Finding]) -> None:
    """Writes the timeline of the rings to `path`. Raises ConfigError C112 when it cannot be written."""
    ranks = [_timeline_of(view) for view in sorted(views, key=lambda view: view.rank or 0)]
    try:
        path.write_text(json.dumps(timeline(ranks, findings)), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            "the timeline cannot be written",
            code="C112",
            where=str(path),
            expected="a file in a folder that can be written to",
            found=str(error),
            next="--trace trace.json",
        ) from error


def _timeline_of(view: RingView) -> RankTimeline:
    """The marks of one kind have a track of their own: those of two kinds may overlap without nesting."""
    kinds = sorted({mark.kind for mark in view.marks if mark.kind is not MarkKind.STEP})[: FIRST_LANE - PHASES]
    track = {MarkKind.STEP: STEPS_TRACK} | {kind: PHASES + i for i, kind in enumerate(kinds)}
    spans = tuple(
        Span(
            name=mark.kind.value if mark.step is None or mark.kind is not MarkKind.STEP else f"step {mark.step}",
            track=track[mark.kind],
            began_ns=mark.began_ns,
            ended_ns=mark.ended_ns,
            step=mark.step,
        )
        for mark in view.marks
        if mark.kind in track and mark.ended_ns is not None and mark.thread == 0
    )
    names = {number: kind.value for kind, number in track.items()}
    return RankTimeline(calls=_calls_of(view), spans=spans, tracks=names, host=view.host)


def _stem(rank: RankSamples) -> str:
    return f"rank{rank.rank:05d}-{rank.pid}"


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "profile",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        epilog=examples(
            "emberward profile -- torchrun --nproc-per-node 2 train.py",
            "emberward profile bloom_tiny --ranks 2 steps=60 data.train=my.txt",
            "emberward profile runs/train",
        ),
    )(profile_verb)
