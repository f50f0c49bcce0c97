"""``emberward check``: proves a recipe, judges traces, examines a script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.cli._console import Screen, Waiting
from emberward.cli._explain import explain_json, explanation_text
from emberward.cli._named_run import DEFAULT_RUNS, find_run, is_run
from emberward.cli._preflight import page_of, say_notes
from emberward.cli._prove import TIME_LIMIT_S, Proof, prove_recipe
from emberward.data import open_tokenizer
from emberward.events import Event, Trace, TraceFormatError, read_trace
from emberward.findings import ConfigError, exit_code_of
from emberward.match import Outcome, Verdict, check, explain, explain_finding
from emberward.plan import Launches, boxing_csv
from emberward.recipe import PRESETS, fit_ranks, launches_of, resolve_fitted
from emberward.report import (
    NOT_PROVED,
    RunFolder,
    State,
    boxing_finding,
    boxing_json,
    boxing_of,
    boxing_text,
    compare_traffic,
    order_finding,
    order_line,
    order_of,
    preflight_json,
    preflight_text,
    read_outcome,
    traffic_finding,
    traffic_line,
)
from emberward.sources.dumps import explain_paths

MAX_TRACE_FILES = 100_000
RING_SUFFIX = ".ring"
RECORDED = """a run that was recorded is explained, as by `emberward explain`; nothing of it is proved
  next      emberward check RECIPE, or check --nproc N -- script.py: the program; emberward report RUN: the run"""
LIVE_ONLY = "what the rings no longer hold: each keeps a rank's newest calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOptions:
    """What the person asked for. `words` are the positional arguments and the overrides."""

    words: tuple[str, ...]
    num_ranks: int | None
    all_ranks: bool
    environment: Mapping[str, str]
    hardware: str | None = None
    boxing_csv: Path | None = None
    runs: Path = DEFAULT_RUNS
    program: str = "emberward"
    """How the person can call this program again."""
    option_names: tuple[str, ...] = ()
    """The command's own options, as ``--ranks``: what a misspelt one may have meant."""


def check_verb(options: CheckOptions, screen: Screen) -> int:
    """The exit code of a check of a recipe or of traces: 0 safe, 1 an error was found. Blocks until it is judged."""
    if not options.words:
        raise ConfigError(
            "nothing to check",
            code="C106",
            expected="a recipe, or trace files, or --nproc N -- script.py",
            next="emberward check bloom_tiny",
        )
    recorded = _recorded(options.words, options.runs)
    if recorded:
        return _check_recorded(recorded, screen)
    files = _trace_files(options.words, options.runs)
    if files is not None:
        return _check_traces(files, screen)
    return _check_recipe(options, screen)


# -- recipes ---------------------------------------------------------------------------------------------------------


def _check_recipe(options: CheckOptions, screen: Screen) -> int:
    command = (options.program, "check")
    name, overrides = options.words[0], options.words[1:]
    fitted = fit_ranks(name, overrides, num_ranks=options.num_ranks, command=command, options=options.option_names)
    tokenizer = open_tokenizer(fitted.loaded.recipe.data.tokenizer)
    resolved = resolve_fitted(fitted, overrides, tokenizer_size=tokenizer.size, command=command)
    page = page_of(resolved, hardware=options.hardware)
    say_notes(resolved, page, fitted.notes, screen)
    boxing = boxing_of(resolved.recipe)
    screen.say(preflight_text(page, width=screen.width) + boxing_text(boxing))
    if options.boxing_csv is not None:
        options.boxing_csv.write_text(boxing_csv(boxing), encoding="utf-8")
    waiting = Waiting(screen, "proving the recipe", limit_s=TIME_LIMIT_S, parts="roles ran dry")
    proof = prove_recipe(resolved, environment=options.environment, all_ranks=options.all_ranks, on_wait=waiting)
    traffic = compare_traffic(page, proof.programs)
    has_transfers = launches_of(resolved.recipe) is Launches.ONE_ORDER
    order = order_of(proof.programs, has_transfers=has_transfers)
    found = (boxing_finding(boxing), traffic_finding(traffic), order_finding(order))
    more = [finding for finding in found if finding is not None]
    for line in (traffic_line(traffic), order_line(order, has_transfers=has_transfers), *map(explain_finding, more)):
        screen.say(line)
    not_examined = (*proof.not_examined, NOT_PROVED)
    screen.say(proof_text(replace(proof, not_examined=not_examined)))
    findings = (*page.findings, *proof.findings, *more)
    screen.document(
        findings,
        proved=proof.is_proved,
        outcome=None if proof.verdict is None else proof.verdict.outcome.value,
        assumptions=list(proof.assumptions),
        not_examined=list(not_examined),
        num_roles=proof.num_roles,
        num_ranks=proof.num_ranks,
        num_events=proof.num_events,
        seconds=round(proof.seconds, 2),
        preflight=preflight_json(page),
        boxing=boxing_json(boxing),
        device_order={"exists": order.exists, "num_calls": order.num_calls, "num_groups": order.num_groups},
    )
    return exit_code_of(findings)


def proof_text(proof: Proof) -> str:
    """The proof for people: findings, the verdict in one line, what was assumed, what was not examined."""
    return "\n".join([*map(explain_finding, proof.findings), proof_line(proof), proof_details(proof)])


def proof_details(proof: Proof) -> str:
    """What the verdict assumed, and what was not examined."""
    lines = ["assumed", *(f"  {line}" for line in proof.assumptions)]
    lines += ["not examined", *(f"  {line}" for line in proof.not_examined)]
    return "\n".join(lines)


def proof_line(proof: Proof) -> str:
    """The verdict in one line, as `emberward train` says it before it starts."""
    ranks = f"{proof.num_ranks} rank{'s' if proof.num_ranks != 1 else ''}"
    size = f"{ranks}, {proof.num_roles} run dry, {proof.num_events} events; {proof.seconds:.1f} s"
    if proof.verdict is None:
        return f"not proved: a rank raised ({size})"
    if proof.is_proved:
        return f"proved: every call of every rank ends ({size})"
    if proof.verdict.outcome is Outcome.NEEDS_BUFFER:
        return f"ends only with {proof.verdict.least_buffer_bytes} buffered bytes a channel ({size})"
    return f"{proof.verdict.outcome.value}: the program does not run to its end ({size})"


# -- traces ----------------------------------------------------------------------------------------------------------


def _trace_files(words: Sequence[str], runs: Path) -> list[Path] | None:
    """The trace files that the words name, None when they name something else. A preset comes before a run's name."""
    paths = [_place(word, runs) for word in words]
    if not all(path.is_dir() or (path.is_file() and path.suffix == ".jsonl") for path in paths):
        return None
    files: list[Path] = []
    for path in paths:
        files += sorted(_events(path).glob("*.jsonl")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(
            "no trace here",
            code="C106",
            where=str(words[0]),
            expected="*.jsonl, or a run's events/",
            found="none",
            next=f"emberward report {words[0]}" if any(map(is_run, paths)) else "emberward check RECIPE",
        )
    return files[:MAX_TRACE_FILES]


def _recorded(words: Sequence[str], runs: Path) -> list[Path]:
    """The folders that the words name, where each holds a failed run, or rings and no trace; else none."""
    paths = [_place(word, runs) for word in words]
    return paths if all(path.is_dir() and (_has_failed(path) or _has_rings_alone(path)) for path in paths) else []


def _has_failed(path: Path) -> bool:
    return is_run(path) and read_outcome(RunFolder(path=path)) in (State.FAILED, State.KILLED)


def _has_rings_alone(path: Path) -> bool:
    events = _events(path)
    return next(events.rglob("*.jsonl"), None) is None and next(events.rglob(f"*{RING_SUFFIX}"), None) is not None


def _events(path: Path) -> Path:
    return path / "events" if is_run(path) or (path / "events").is_dir() else path


def _check_recorded(folders: Sequence[Path], screen: Screen) -> int:
    """Says what `emberward explain` says of what ranks recorded live, and what a failed run found: nothing is proved.

    Rings hold the newest calls of each rank, which have no beginning.
    """
    result = explain_paths(folders, source_folders=[Path.cwd()])
    for explanation in result.explanations:
        screen.say(explanation_text(explanation))
    screen.say(RECORDED)
    screen.document(result.findings, proved=False, outcome=None, not_examined=[LIVE_ONLY], **explain_json(result))
    return exit_code_of(result.findings)


def _place(word: str, runs: Path) -> Path:
    """The path of that name; where it is or holds a run, or is no path and no recipe, the run's folder."""
    path = Path(word)
    if path.is_file() or word in PRESETS or any(path.glob("*.jsonl")):
        return path
    return find_run(path, runs) or path


def _check_traces(files: Sequence[Path], screen: Screen) -> int:
    verdict = check(join_traces(files))
    screen.say(explain(verdict))
    screen.document(verdict.findings, **_verdict_values(verdict))
    return exit_code_of(verdict.findings)


def _verdict_values(verdict: Verdict) -> dict[str, object]:
    return {
        "proved": verdict.is_proof,
        "outcome": verdict.outcome.value,
        "assumptions": list(verdict.assumptions),
        "not_examined": [*(f"rank {rank}: no trace" for rank in verdict.unknown_ranks[:16]), *verdict.not_compared],
        "num_ranks": verdict.num_ranks,
        "num_events": verdict.num_events,
    }


def join_traces(files: Sequence[Path]) -> Trace:
    """The traces of several files as one. Raises ConfigError C106 when one cannot be believed or they do not fit."""
    whole: Trace | None = None
    for file in files:
        try:
            trace = read_trace(file)
        except (OSError, TraceFormatError) as error:
            raise ConfigError("a trace cannot be read", code="C106", where=str(file), found=str(error)) from error
        whole = trace if whole is None else _joined(whole, trace, file)
    assert whole is not None, "at least one file"
    return whole


def _joined(whole: Trace, other: Trace, file: Path) -> Trace:
    twice = sorted(set(whole.events) & set(other.events))
    if twice or whole.world_size != other.world_size or whole.observer is not other.observer:
        raise ConfigError(
            "traces of different runs",
            code="C106",
            where=str(file),
            expected=f"another rank of a world of {whole.world_size}, observed by {whole.observer.value}",
            found=f"rank {twice[0]} a second time"
            if twice
            else f"a world of {other.world_size}, observed by {other.observer.value}",
        )
    events: dict[int, tuple[Event, ...]] = {**whole.events, **other.events}
    assumptions = tuple(dict.fromkeys((*whole.assumptions, *other.assumptions)))
    return replace(whole, events=events, credits={**whole.credits, **other.credits}, assumptions=assumptions)
