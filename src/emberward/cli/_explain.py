"""``emberward explain``: a verdict on a job that we did not start, from the files it left or from its processes."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen, Told, waiting_for
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption, find_run, is_run, newest_run
from emberward.diagnose import Explanation
from emberward.findings import ConfigError, Finding, Severity, exit_code_of
from emberward.match import explain_finding
from emberward.sources.dumps import ExplainResult, explain_paths, source_lines
from emberward.sources.live import LiveExplanation, explain_pids

PIPED = "-"
"""The word for standard input."""
MAX_SHOWN = 12
"""Most findings that are printed for one incident; the JSON document holds all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """What the person asked for: files and folders, or process numbers alone.

    `sources`: folders with the program's files, for the lines that stacks name.
    """

    paths: tuple[str, ...]
    sources: tuple[Path, ...] = ()
    runs: Path = DEFAULT_RUNS


def explain_verb(options: ExplainOptions, screen: Screen) -> int:
    """The exit code: 1 when an error was found, else 0. Needs no torch; reads files or processes."""
    pids = _pids(options.paths)
    if pids:
        return _explain_live(pids, options, screen)
    is_piped = PIPED in options.paths
    words = [word for word in options.paths if word != PIPED]
    paths = _paths(words, options.runs) if words or not is_piped else []
    told = Told("reading what was left", screen.complain)
    piped = sys.stdin.buffer if is_piped else None
    result = explain_paths(paths, source_folders=options.sources, piped=piped, told=told)
    for explanation in result.explanations:
        screen.say(explanation_text(explanation))
    for finding in result.comparisons:
        screen.say(explain_finding(finding))
    screen.document(result.findings, **explain_json(result))
    return exit_code_of(result.findings)


def _pids(words: Sequence[str]) -> list[int]:
    """The process numbers, when the words are nothing else and no files are called so; else none."""
    if not words or not all(word.isdigit() and not Path(word).exists() for word in words):
        return []
    return [int(word) for word in words]


def _explain_live(pids: Sequence[int], options: ExplainOptions, screen: Screen) -> int:
    """Explains a job that hangs right now, by snapshots of its processes."""
    label = f"process {', '.join(map(str, pids))}"
    with waiting_for(screen, f"reading the stacks at and below {label}, again after some seconds"):
        explained = explain_pids(pids, line_of=source_lines(options.sources))
    gone = explained.job.gone
    if gone and not explained.job.ranks:
        raise ConfigError(
            "no such process",
            code="C113",
            where=f"explain {' '.join(map(str, pids))}",
            expected="the number of a process that runs on this host: the launcher's, or a rank's",
            found=f"nothing runs as {', '.join(map(str, gone))}",
            next="pgrep -af torchrun",
        )
    screen.say(f"{label}: looked at {', '.join(explained.read) or 'nothing'}")
    for finding in explained.findings[:MAX_SHOWN]:
        screen.say(explain_finding(finding))
    screen.document(
        explained.findings,
        incidents=[
            {
                "label": label,
                "read": list(explained.read),
                "num_ranks": len(explained.job.ranks),
                "missing_ranks": _unseen(explained),
                "verdict": explained.findings[0].to_json(),
            }
        ],
        comparisons=[],
        ranks=[{"rank": found.rank if found.is_numbered else None, "pid": found.pid} for found in explained.job.ranks],
    )
    return exit_code_of(explained.findings)


def _unseen(explained: LiveExplanation) -> list[int]:
    seen = {found.rank for found in explained.job.ranks}
    return sorted(set(range(explained.job.world_size or 0)) - seen)


def _paths(words: Sequence[str], runs: Path) -> list[Path]:
    """The paths, of a run its folder. Raises ConfigError for one that is not there."""
    if not words:
        raise ConfigError(
            "nothing to explain",
            code="C106",
            expected="files or folders with dumps, stacks, logs or RAS reports",
            next="emberward explain /tmp/nccl_trace_rank_*",
        )
    paths = [_path(word, runs) for word in words]
    for word, path in zip(words, paths, strict=True):
        if not word or not path.exists():
            raise ConfigError(
                "no such file or folder",
                code="C106",
                where=word or "an empty word",
                expected="files or folders with dumps, stacks, logs or RAS reports",
                found="nothing at that path",
                next=f"ls {path.parent}",
            )
    return paths


def _path(word: str, runs: Path) -> Path:
    """The path of that name, else the run of it; of a folder that holds nothing but runs the newest run."""
    path = Path(word)
    is_of_runs = path.is_dir() and not is_run(path) and all(is_run(each) or newest_run(each) for each in path.iterdir())
    found = find_run(path, runs) if word and (is_of_runs or not path.exists()) else None
    return path if found is None else found


def explanation_text(explanation: Explanation) -> str:
    """The explanation as people read it: what was read, the verdict first, then what else was found."""
    what = ", ".join(explanation.read) or "nothing"
    lines = [f"{explanation.label}: read {what}"]
    lines += [explain_finding(finding) for finding in explanation.findings[:MAX_SHOWN]]
    rest = explanation.findings[MAX_SHOWN:]
    if rest:
        lines.append(f"and {len(rest)} more findings, {_num_errors(rest)} of them errors: see --json")
    return "\n".join(lines)


def _num_errors(findings: Sequence[Finding]) -> int:
    return sum(finding.severity is Severity.ERROR for finding in findings)


def explain_json(result: ExplainResult) -> dict[str, object]:
    """What the JSON document holds besides the findings: one object for each incident."""
    return {
        "incidents": [
            {
                "label": explanation.label,
                "read": list(explanation.read),
                "num_ranks": explanation.num_ranks,
                "missing_ranks": list(explanation.missing_ranks),
                "verdict": explanation.verdict.to_json(),
            }
            for explanation in result.explanations
        ],
        "comparisons": [finding.to_json() for finding in result.comparisons],
    }


def explain(
    paths: Annotated[
        list[str],
        typer.Argument(help="Process numbers of a job that hangs; or dumps, stacks, logs, folders."),
    ],
    sources: Annotated[list[Path] | None, typer.Option("--source", help="Folder with the program's files.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Say who stopped a job and why: a job that hangs now, or the files that one left. Two folders are compared."""
    options = ExplainOptions(paths=tuple(paths), sources=tuple(sources or ()), runs=runs)
    guarded(lambda screen: explain_verb(options, screen), is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "explain",
        epilog=examples(
            "emberward explain 12345",
            "emberward explain /tmp/nccl_trace_rank_* logs/",
            "emberward explain runs/train/ID",
        ),
    )(explain)
