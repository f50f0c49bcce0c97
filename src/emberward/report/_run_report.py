"""A run as one value, read from its folder alone, and that value as text and as JSON."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emberward.findings import Finding
from emberward.report._diary import NO_DIARY, Diary, read_diary
from emberward.report._duration import duration_text, running_s
from emberward.report._findings import read_findings
from emberward.report._fit import curve_text, shell_lines, table
from emberward.report._folder import RunFolder
from emberward.report._read import JsonObject, read_json, read_lines

MAX_LAYOUT_ROWS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run's folder says. Absent facts are None.

    `outcome` is that of the last attempt: done, stopped, failed or killed; None while it runs or when its launcher died
    before it could write one. `recovered` are findings of attempts that a later one has got over. `seconds` and
    `lost_s` are sums over all attempts, the one that runs included. Losses are in nats a unit, `losses` one a step.
    """

    folder: RunFolder
    outcome: str | None
    step: int | None
    steps: int | None
    first_step: int | None
    loss_first: float | None
    loss_last: float | None
    evals: Mapping[str, Mapping[str, float]]
    eval_step: int | None
    tokens_per_s: float | None
    step_s: float | None
    seconds: float
    lost_s: float
    num_attempts: int
    checkpoint: str | None
    sample_prompt: str | None
    sample: str | None
    ranks: tuple[JsonObject, ...]
    findings: tuple[Finding, ...]
    recovered: tuple[Finding, ...] = ()
    diary: Diary = NO_DIARY
    losses: tuple[float | None, ...] = ()
    sample_source: str | None = None
    """Where the prompt is from."""
    unit: str = "tokens"
    """What the loss is a mean over."""


def _median(lines: Sequence[JsonObject], key: str) -> float | None:
    values = [line[key] for line in lines if isinstance(line.get(key), int | float)]
    return statistics.median(values) if values else None


def _ranks(folder: RunFolder, summary: JsonObject) -> tuple[JsonObject, ...]:
    if isinstance(summary.get("ranks"), list):
        return tuple(summary["ranks"])
    files = sorted(folder.ranks.glob("rank*.json"))
    return tuple(rank for file in files if (rank := read_json(file)) is not None)


def _saved(folder: RunFolder, summary: JsonObject) -> str | None:
    """The last save, where it lies now: a run's folder may have been moved since it ended."""
    said = summary.get("checkpoint")
    if not isinstance(said, str):
        return None
    here = folder.checkpoints / Path(said).name
    return str(here) if here.is_dir() else said


def read_outcome(folder: RunFolder) -> str | None:
    """How the last attempt ended; None while it runs, or when its launcher died before it could say. Cheap."""
    return _outcome(list(read_lines(folder.attempts)), read_json(folder.summary) or {})


def _outcome(attempts: Sequence[JsonObject], summary: JsonObject) -> str | None:
    """The launcher's word when it wrote one, else rank 0's: a run may have had no launcher of ours."""
    starts = [line for line in attempts if line.get("event") == "start"]
    if starts:
        ends = [line for line in attempts if line.get("event") == "end"]
        if ends and ends[-1].get("attempt") == starts[-1].get("attempt"):
            return ends[-1].get("outcome")
    return summary.get("outcome")


def read_run(folder: RunFolder) -> RunReport:
    """The report of the run in `folder`; a folder that lacks files gives a report that lacks facts. Reads only.

    A step that was done twice, before and after a resume, counts as it was done last.
    """
    summary = read_json(folder.summary) or {}
    said = read_json(folder.progress) or {}
    steps = _by_step(folder.metrics)
    losses = tuple(_number(line.get("loss")) for line in (steps or _by_step(folder.curve)))
    evals = list(read_lines(folder.evals))
    ends = [line for line in read_lines(folder.attempts) if line.get("event") == "end"]
    starts = [line for line in read_lines(folder.attempts) if line.get("event") == "start"]
    last_eval = evals[-1] if evals else {}
    outcome = _outcome([*starts, *ends], summary)
    standing, recovered = read_findings(folder, starts, outcome)
    until_unix = _last_sign(folder, said)
    return RunReport(
        folder=folder,
        outcome=outcome,
        step=steps[-1]["step"] if steps else summary.get("step"),
        steps=said.get("steps", summary.get("steps")),
        first_step=steps[0]["step"] if steps else None,
        loss_first=losses[0] if losses else summary.get("loss_first"),
        loss_last=losses[-1] if losses else summary.get("loss_last"),
        evals=summary.get("evals") or last_eval.get("sets") or {},
        eval_step=last_eval.get("step"),
        tokens_per_s=_median(steps, "tokens_per_s") or summary.get("tokens_per_s"),
        step_s=_median(steps, "step_s"),
        seconds=running_s([*starts, *ends], until_unix=until_unix),
        lost_s=sum(end.get("hours_lost") or 0.0 for end in ends) * 3600,
        num_attempts=len(starts),
        checkpoint=_saved(folder, summary),
        sample_prompt=summary.get("sample_prompt"),
        sample=summary.get("sample"),
        ranks=_ranks(folder, summary),
        findings=standing,
        recovered=recovered,
        diary=read_diary(folder, steps, until_unix=until_unix if len(starts) > len(ends) else None),
        sample_source=summary.get("sample_source"),
        unit=summary.get("unit") or "tokens",
        losses=losses,
    )


def _by_step(path: Path) -> list[JsonObject]:
    found = {line["step"]: line for line in read_lines(path) if isinstance(line.get("step"), int)}
    return [found[step] for step in sorted(found)]


def _last_sign(folder: RunFolder, said: JsonObject) -> float:
    """When the run was last known to live: its supervisor's last heartbeat, else rank 0's; seconds since 1970."""
    signs = [(read_json(folder.supervisor) or {}).get("time_unix"), said.get("time_unix")]
    return max((sign for sign in signs if isinstance(sign, int | float)), default=0.0)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def run_json(report: RunReport) -> JsonObject:
    """The report as it stands in a command's JSON document, without the findings that stand."""
    return {
        "recovered": [finding.to_json() for finding in report.recovered],
        "run": str(report.folder.path),
        "name": report.folder.name,
        "id": report.folder.id,
        "outcome": report.outcome,
        "step": report.step,
        "steps": report.steps,
        "loss_first": report.loss_first,
        "loss_last": report.loss_last,
        "evals": {name: dict(values) for name, values in report.evals.items()},
        "tokens_per_s": report.tokens_per_s,
        "step_s": report.step_s,
        "hours": report.seconds / 3600,
        "hours_lost": report.lost_s / 3600,
        "attempts": report.num_attempts,
        "checkpoint": report.checkpoint,
        "sample_prompt": report.sample_prompt,
        "sample": report.sample,
        "ranks": list(report.ranks),
        **report.diary.to_json(),
    }


def printable(text: str) -> str:
    """`text` with every control character but newline and tab shown as an escape: a model may write anything."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def layout_lines(ranks: Sequence[Mapping[str, Any]], *, width: int | None = None) -> list[str]:
    """The layout table: rank, coordinates on each axis, host; at most MAX_LAYOUT_ROWS ranks, the rest counted."""
    if not ranks:
        return []
    ordered = sorted(ranks, key=lambda rank: rank.get("rank", 0))
    axes = list(ordered[0].get("coordinates") or {})
    rows = []
    for rank in ordered[:MAX_LAYOUT_ROWS]:
        at = rank.get("coordinates") or {}
        rows.append(
            [str(rank.get("rank")), *(str(at.get(axis, "")) for axis in axes), str(rank.get("host", "unknown"))]
        )
    lines = table(["rank", *axes, "host"], rows, width=width)
    if len(ordered) > MAX_LAYOUT_ROWS:
        lines.append(f"and {len(ordered) - MAX_LAYOUT_ROWS} more ranks, in {len(ordered)} files of ranks/")
    return lines


def _head(report: RunReport, state: str | None) -> str:
    state = report.outcome or state or "no end recorded: it runs, or its launcher died"
    where = "" if report.step is None else f" at step {report.step}"
    of = "" if report.steps is None or report.step is None else f" of {report.steps}"
    return f"{report.folder.name} {report.folder.id}: {state}{where}{of}"


def perplexity_text(loss: float) -> str:
    """How many tokens, or classes, the model is torn between, as far as its loss in nats says: 3 significant digits."""
    return f"{math.exp(loss):,.3g}" if loss < 7 else f"{math.exp(min(loss, 700)):.2e}"


def _a(unit: str) -> str:
    """``a token``, ``an image``."""
    one = unit.removesuffix("s")
    return f"{'an' if one[:1] in 'aeiou' else 'a'} {one}"


def _loss_facts(report: RunReport) -> list[tuple[str, str]]:
    """The loss from the first step to the last. Of a program of its own neither unit nor steps are known."""
    if report.loss_first is None or (report.loss_last is None and not report.losses):
        return []
    last = "not finite" if report.loss_last is None else f"{report.loss_last:.4f}"
    losses, steps = f"{report.loss_first:.4f} -> {last}", ""
    if report.step is not None and report.loss_last is not None:
        perplexity = f"perplexity {perplexity_text(report.loss_first)} -> {perplexity_text(report.loss_last)}"
        losses += f" nats {_a(report.unit)}, {perplexity}"
        steps = f"  steps {report.first_step} to {report.step}"
    return [("loss", losses), *([("", curve_text(report.losses) + steps)] if len(report.losses) > 1 else [])]


def _facts(report: RunReport) -> list[tuple[str, str]]:
    facts = _loss_facts(report)
    for name, values in report.evals.items():
        tokens = f" over {values['tokens']:,.0f} {report.unit}" if "tokens" in values else ""
        loss = values.get("loss")
        mean = "not finite" if loss is None else f"{loss:.4f} (perplexity {perplexity_text(loss)})"
        facts.append(("held out", f"{name}: {mean}{tokens}"))
    if report.tokens_per_s is not None:
        each = "" if report.step_s is None else f", {report.step_s:.3f} s a step (medians)"
        facts.append(("speed", f"{report.tokens_per_s:,.0f} {report.unit}/s{each}"))
    if report.num_attempts:
        attempts = "1 attempt" if report.num_attempts == 1 else f"{report.num_attempts} attempts"
        good = report.diary.goodput
        pause_s = 0.0 if good is None else good.elapsed_s - report.seconds
        between = f", {duration_text(pause_s)} between them" if report.num_attempts > 1 and pause_s >= 1 else ""
        facts.append(("time", f"{duration_text(report.seconds)} in {attempts}{between}"))
    facts += report.diary.rows()
    if report.checkpoint is not None:
        facts.append(("saved", report.checkpoint))
    return facts


@dataclass(frozen=True, slots=True, kw_only=True)
class NextCommand:
    """A command to try next, and what it is for."""

    command: str
    why: str


def run_text(
    report: RunReport, *, state: str | None = None, next_commands: Sequence[NextCommand] = (), width: int | None = None
) -> str:
    """The summary of a run for people: layout table, figures, findings, sample, folder, commands to try next.

    `state`: how it stands, where its last attempt has no end.
    """
    lines = [_head(report, state), ""]
    if len(report.ranks) > 1:
        lines += [f"  {line}" for line in layout_lines(report.ranks, width=None if width is None else width - 2)]
        lines.append("")
    lines += [f"  {label:<11} {value}" for label, value in _facts(report)]
    lines += [
        f"  {finding.severity.value:<11} {finding.code} {printable(finding.message)}" for finding in report.findings
    ]
    lines += [f"  {'recovered':<11} {finding.code} {printable(finding.message)}" for finding in report.recovered]
    if report.sample is not None:
        lines += _sample_lines(report)
    place = (
        "a bundle, unpacked for as long as it is read" if report.folder.manifest.is_file() else str(report.folder.path)
    )
    lines.append(f"  {'folder':<11} {place}")
    for i, each in enumerate(next_commands):
        lines += [f"  {'next' if i == 0 else '':<11} {each.why}:"]
        lines += [f"    {line}" for line in shell_lines(each.command, first=4, width=width)]
    return "\n".join(lines)


def _sample_lines(report: RunReport) -> list[str]:
    """The prompt, and what the model went on with."""
    prompt, sample = printable(report.sample_prompt or ""), printable(report.sample or "")
    return [
        f"  {'prompt':<11} {report.sample_source or 'sample_prompt'}",
        *(f"    | {line}".rstrip() for line in prompt.split("\n")),
        f"  {'sample':<11} what the model writes after it",
        *(f"    | {line}".rstrip() for line in sample.split("\n")),
    ]
