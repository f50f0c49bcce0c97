"""What the first screen of a run says, read from the ends of its files: as quick for a million steps as for ten."""

import os
import shlex
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from emberward.checkpoint import list_checkpoints
from emberward.findings import PROGRAM, Finding
from emberward.health import Goodput, goodput_of, kept_until
from emberward.report._card import Card, CardFacts, by_itself_of, card_of, read_seen_before
from emberward.report._findings import read_findings, telling_finding
from emberward.report._folder import RunFolder
from emberward.report._progress import eta_s
from emberward.report._read import JsonObject, parse_line, read_json, read_lines, tail_text
from emberward.report._run_report import read_outcome
from emberward.report._state import Signs, State, is_late, state_of, step_limit_s
from emberward.report._watched import watched_steps

NUM_LAST_STEPS = 100
"""Steps that the tiles' medians are of."""
MAX_RANK_FILES = 20_000
_ENDED = ("done", "stopped", "failed", "killed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One save of the run. `problem`: why it cannot be read, None for one that is whole."""

    step: int
    num_bytes: int | None
    world_size: int | None
    names: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """A run at one moment, as its first screen shows it. Absent facts are None; times are seconds since 1970.

    `since_unix`: since when the state holds. `limit_s`: how old the last step may be. `logged`: where the program
    itself logged its `loss`, of one that writes no metrics of ours. `has_bad_loss`: the last one is not finite.
    `at_risk_steps`: steps that a death now would cost.
    `told`: the finding of the card; `num_watched`: ranks that the watcher knows, which may have no rank files.
    `lost_s`: work that had to be done again; `goodput` has the pauses too, and is estimated from the newest steps where
    nobody had read all of them (`is_goodput_exact`).
    """

    folder: RunFolder
    now_unix: float
    state: State
    is_late: bool
    since_unix: float | None
    phase: str | None
    detail: str | None
    step: int | None
    steps: int | None
    loss: float | None
    logged: str | None
    has_bad_loss: bool
    step_s: float | None
    tokens_per_s: float | None
    mfu: float | None
    last_step_unix: float | None
    limit_s: float
    eta_s: float | None
    saves: tuple[Save, ...]
    at_risk_steps: int | None
    lost_s: float
    goodput: Goodput | None
    is_goodput_exact: bool
    attempts: tuple[JsonObject, ...]
    ranks: tuple[JsonObject, ...]
    findings: tuple[Finding, ...]
    recovered: tuple[Finding, ...]
    told: Finding | None
    card: Card | None
    program: str
    num_watched: int | None

    @property
    def num_attempts(self) -> int:
        """How often the run was started."""
        return sum(1 for line in self.attempts if line.get("event") == "start")

    @property
    def num_ranks(self) -> int | None:
        """Ranks of the last attempt."""
        said = [line.get("num_ranks") for line in self.attempts if line.get("event") == "start"]
        return len(self.ranks) or next((n for n in reversed(said) if isinstance(n, int)), self.num_watched)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of its ranks, in order of their first rank."""
        return tuple(dict.fromkeys(str(rank["host"]) for rank in self.ranks if rank.get("host") is not None))

    @property
    def save(self) -> Save | None:
        """The newest save that is whole."""
        return next((save for save in reversed(self.saves) if save.problem is None), None)


def read_glance(
    folder: RunFolder,
    *,
    now_unix: float,
    is_alone: bool = False,
    said: tuple[Finding, ...] = (),
    program: str = PROGRAM,
    trained_s: Callable[[int | None], float | None] = lambda _: None,
) -> Glance:
    """The run in `folder` now. Reads only, and raises nothing: a folder that lacks files gives a glance without facts.

    `is_alone`: its launcher is gone; `said`: findings that the caller knows and the folder does not have;
    `program`: what the reader types for `emberward`; `trained_s`: seconds of all steps up to one, where they
    are read.
    """
    attempts = tuple(read_lines(folder.attempts))
    starts = [line for line in attempts if line.get("event") == "start"]
    ends = [line for line in attempts if line.get("event") == "end"]
    summary, progress = read_json(folder.summary) or {}, read_json(folder.progress) or {}
    outcome = read_outcome(folder)
    outcome = outcome if outcome in (None, *_ENDED) else "failed"
    last_unix = _modified_unix(folder)
    last = _last_steps(folder) if last_unix is not None else []
    if last_unix is None:
        last, last_unix = watched_steps(folder, newest=NUM_LAST_STEPS)
    newest = last[-1] if last else {}
    standing, recovered = read_findings(folder, starts, outcome)
    standing = (*standing, *said)
    logged = None if folder.curve == folder.metrics else next(iter(reversed(_last_steps(folder))), None)
    step_s = _median(last, "step_s")
    step = _int(newest.get("step", progress.get("step")))
    steps = _int(progress.get("steps", summary.get("steps", newest.get("steps"))))
    phase = progress.get("phase") if isinstance(progress.get("phase"), str) else None
    signs = Signs(
        outcome=outcome,
        num_attempts=len(starts),
        is_alone=is_alone,
        phase=phase,
        step_age_s=None if last_unix is None else max(now_unix - last_unix, 0.0),
        step_s=step_s,
        findings=standing,
    )
    state = state_of(signs)
    saves = _saves(folder)
    saved = next((save.step for save in reversed(saves) if save.problem is None), 0)
    at_risk = None if step is None or state is State.DONE else max(step - saved, 0)
    last_kept = kept_until(attempts)
    kept_s = trained_s(last_kept)
    about_s = (step_s or 0.0) * min(step or 0, step or 0 if last_kept is None else last_kept)
    ranks = _ranks(folder, summary)
    num_watched = None if ranks else _num_watched(folder)
    facts = CardFacts(
        ranks={rank["rank"]: rank for rank in ranks if isinstance(rank.get("rank"), int)},
        num_ranks=len(ranks) or _int((starts[-1] if starts else {}).get("num_ranks")) or num_watched,
        at_risk_steps=at_risk,
        saved_step=saved if saves else None,
        step_s=step_s,
        lost_hours=sum(end.get("hours_lost") or 0.0 for end in ends),
        program=program,
        changed=tuple(str(each) for each in (starts[-1] if starts else {}).get("changed") or ()),
    )
    # A hang that did not go on before somebody stopped the run is what there is to tell, too.
    stands_still = state is State.STALLED or (state.is_over and state is not State.DONE)
    worst = telling_finding(standing, stands_still=stands_still)
    if worst is not None:
        by_itself = by_itself_of(standing, worst, run=shlex.quote(str(folder.path)))
        facts = replace(facts, by_itself=by_itself, is_over=state.is_over and state is not State.DONE)
    return Glance(
        folder=folder,
        now_unix=now_unix,
        state=state,
        is_late=is_late(signs) and not state.is_over,
        since_unix=_since(state, starts, ends, last_unix),
        phase=phase,
        detail=progress.get("detail") if isinstance(progress.get("detail"), str) else None,
        step=step,
        steps=steps,
        loss=_float(newest.get("loss")) if logged is None else _float(logged.get("loss")),
        logged=None if logged is None else str(logged.get("curve")),
        has_bad_loss=bool((newest if logged is None else logged).get("nan")),
        step_s=step_s,
        tokens_per_s=_median(last, "tokens_per_s"),
        mfu=_median(last, "mfu"),
        last_step_unix=last_unix,
        limit_s=step_limit_s(step_s),
        eta_s=None
        if step is None or steps is None or step_s is None or state.is_over
        else eta_s(step=step, steps=steps, recent_step_s=[step_s]),
        saves=saves,
        at_risk_steps=at_risk,
        lost_s=facts.lost_hours * 3600,
        goodput=goodput_of(
            attempts, about_s if kept_s is None else kept_s, until_unix=_counted_until(state, last_unix, now_unix)
        ),
        is_goodput_exact=kept_s is not None,
        attempts=attempts,
        ranks=ranks,
        findings=standing,
        recovered=recovered,
        program=program,
        num_watched=num_watched,
        told=worst,
        card=None if worst is None else card_of(worst, facts, seen_before=read_seen_before(folder, worst)),
    )


def _last_steps(folder: RunFolder) -> list[JsonObject]:
    lines = tail_text(folder.curve, num_lines=NUM_LAST_STEPS, max_bytes=64 * 1024)
    found = [parse_line(line.encode()) for line in lines]
    return [line for line in found if line is not None and isinstance(line.get("step"), int)]


def _modified_unix(folder: RunFolder) -> float | None:
    """When the last step was written."""
    try:
        return folder.metrics.stat().st_mtime
    except OSError:
        return None


def _ranks(folder: RunFolder, summary: JsonObject) -> tuple[JsonObject, ...]:
    if isinstance(summary.get("ranks"), list):
        return tuple(rank for rank in summary["ranks"] if isinstance(rank, dict))
    try:
        return _ranks_of(folder.ranks, folder.ranks.stat().st_mtime_ns)
    except OSError:
        return ()


def _num_watched(folder: RunFolder) -> int | None:
    """Ranks that live as the supervisor said last, or that left their rings; None when nobody said."""
    living = _int((read_json(folder.supervisor) or {}).get("num_ranks")) or 0
    left = {path.name[:9] for path in folder.events.glob("attempt-*/rank?????-*.ring")}
    return max(living, len(left)) or None


@lru_cache(maxsize=64)
def _ranks_of(place: Path, _modified_ns: int) -> tuple[JsonObject, ...]:
    """The rank files of a folder that was changed last at that time: each appears in it by a rename."""
    with os.scandir(place) as entries:
        names = sorted(each.name for each in entries if each.name.startswith("rank") and each.name.endswith(".json"))
    return tuple(rank for name in names[:MAX_RANK_FILES] if (rank := read_json(place / name)) is not None)


def _saves(folder: RunFolder) -> tuple[Save, ...]:
    try:
        return _saves_of(folder.checkpoints, folder.checkpoints.stat().st_mtime_ns)
    except OSError:
        return ()


@lru_cache(maxsize=64)
def _saves_of(root: Path, _modified_ns: int) -> tuple[Save, ...]:
    """The saves of a folder that was changed last at that time: a save appears in it by a rename."""
    return tuple(
        Save(
            step=each.step,
            num_bytes=each.num_bytes,
            world_size=each.world_size,
            names=each.names,
            problem=each.problem,
        )
        for each in sorted(list_checkpoints(root), key=lambda each: each.step)
    )


def _since(state: State, starts: list[JsonObject], ends: list[JsonObject], last_unix: float | None) -> float | None:
    if state is State.STALLED or state is State.ABANDONED:
        return last_unix
    line = ends[-1].get("end") if state.is_over and ends else (starts[-1].get("start") if starts else None)
    try:
        return datetime.fromisoformat(str(line)).timestamp()
    except ValueError:
        return last_unix


def _counted_until(state: State, last_unix: float | None, now_unix: float) -> float:
    """Until when goodput is counted: the last step; of a run that stands still the last whole minute.

    So what is shown does not change because a second passes.
    """
    if last_unix is not None and state is not State.STALLED:
        return last_unix
    return max(now_unix // 60 * 60, last_unix or 0.0)


def _median(lines: list[JsonObject], key: str) -> float | None:
    values = [value for line in lines if (value := _float(line.get(key))) is not None]
    return statistics.median(values) if values else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
