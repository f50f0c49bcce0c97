"""A run from Python, as in a notebook: its series as columns, its state and card, figures inline."""

import html
import time
from collections.abc import Callable
from importlib import import_module, util
from os import PathLike
from pathlib import Path
from typing import Any

from emberward.cli._named_run import DEFAULT_RUNS, require_run
from emberward.report import (
    Frame,
    Glance,
    Picture,
    RunFolder,
    State,
    duration_text,
    lines_picture,
    preflight_pictures,
    read_glance,
    read_json,
    read_lines,
    witness_picture,
)
from emberward.supervise import facts_of
from emberward.web import Columns, lag_frame

POINTS = 600
"""Stretches of steps that a figure shows: an SVG of at most 60 kB."""
POLL_S = 0.5


class Run:
    """A run that is going or over, read from its folder alone. Nothing here changes the run or waits for its ranks.

    Each property reads the folder again, so that it is as new as the files are. Needs neither torch nor pandas.
    """

    def __init__(self, run: str | PathLike[str], *, runs: str | PathLike[str] = DEFAULT_RUNS) -> None:
        """`run` names a run as every verb takes it: its folder, a folder of runs (the newest), a name or id in `runs`.

        Raises `emberward.findings.ConfigError` C107 when there is none, with the names that are close.
        """
        self._folder = RunFolder(path=require_run(Path(run), Path(runs), verb="report"))
        self._columns = Columns(self._folder)

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self._folder.path

    def _glance(self) -> Glance:
        now_unix = time.time()
        is_alone, said = facts_of(self._folder, now_unix)
        return read_glance(self._folder, now_unix=now_unix, is_alone=is_alone, said=said)

    @property
    def state(self) -> str:
        """``running``, ``stalled``, ``done`` and so on: the word that page and terminal have."""
        return self._glance().state.value

    @property
    def card(self) -> str | None:
        """The incident card as text: what, who, why, what it is not, what to do. None when nothing stands."""
        card = self._glance().card
        return None if card is None else card.text()

    @property
    def metrics(self) -> Frame:
        """A row a step of the metrics or of the loss that a program under `run` logged; the last of one done again."""
        rows: dict[object, dict[str, Any]] = {}
        for row in read_lines(self._folder.curve):
            step = row.get("step")
            if isinstance(step, int):
                rows.pop(step, None)
                rows[step] = row
        return Frame.of_rows(sorted(rows.values(), key=lambda row: row["step"]))

    @property
    def findings(self) -> Frame:
        """A row a finding that stands, or that a later attempt got over (`recovered`), in the order they came."""
        glance = self._glance()
        rows = [{"recovered": True, **each.to_json()} for each in glance.recovered]
        rows += [{"recovered": False, **each.to_json()} for each in glance.findings]
        names = ("code", "severity", "kind", "cause", "certainty", "culprit_ranks", "hosts", "site", "message", "next")
        return Frame.of_rows([{**row, "step": row["phase"]["step"]} for row in rows], ("recovered", "step", *names))

    @property
    def attempts(self) -> Frame:
        """A row an attempt: start, end, how and why it ended, hours, hours lost, what had changed before it."""
        found: dict[object, dict[str, Any]] = {}
        for line in read_lines(self._folder.attempts):
            if line.get("event") in ("start", "end"):
                found.setdefault(line.get("attempt"), {}).update(line)
        names = (
            "attempt",
            "start",
            "end",
            "outcome",
            "why",
            "hours",
            "hours_lost",
            "last_step",
            "num_ranks",
            "changed",
        )
        return Frame.of_rows(list(found.values()), names)

    @property
    def timeline(self) -> Frame:
        """What happened at which step: starts, ends, evaluations, saves, findings; by step."""
        glance = self._glance()
        rows: list[dict[str, Any]] = []
        for line in glance.attempts:
            event = str(line.get("event"))
            step = line.get("saved_step") if event == "start" else line.get("last_step")
            said = line.get("why") or line.get("text") or ""
            rows.append({"step": step, "what": event, "attempt": line.get("attempt"), "text": said})
        for line in read_lines(self._folder.evals):
            sets = line.get("sets")
            losses = (
                {}
                if not isinstance(sets, dict)
                else {name: values.get("loss") for name, values in sets.items() if isinstance(values, dict)}
            )
            text = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items() if isinstance(loss, float))
            rows.append({"step": line.get("step"), "what": "evaluation", "attempt": None, "text": text})
        rows += [
            {"step": save.step, "what": "save", "attempt": None, "text": save.problem or "whole"}
            for save in glance.saves
        ]
        rows += [
            {"step": each.phase.step, "what": each.code, "attempt": None, "text": each.message}
            for each in (*glance.recovered, *glance.findings)
        ]
        rows.sort(key=lambda row: row["step"] if isinstance(row["step"], int) else 0)
        return Frame.of_rows(rows, ("step", "what", "attempt", "text"))

    @property
    def lag(self) -> Frame:
        """Seconds that each rank was behind its peers, a row a step that the watcher kept; none without a watcher."""
        return Frame(lag_frame(self._folder))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pre-flight's pictures and who waits for whom. A notebook shows each; `Picture.alone()` is its SVG."""
        glance = self._glance()
        waits = [witness_picture(each) for each in glance.findings]
        return (*preflight_pictures(read_json(self._folder.preflight) or {}), *filter(None, waits))

    def plot(self, name: str = "loss") -> Picture | None:
        """A series by step (``loss``, ``grad_norm``, ``step_s``, ``lr``, ``tokens_per_s``, ``mfu``, ...) as a picture.

        A spike of one step is in it, however long the run. None when the run has no two values of it. Raises KeyError
        for a series that the page does not keep.
        """
        self._columns.poll()
        found = self._columns.reduced(points=POINTS)
        column = found["columns"][name]
        return lines_picture(name, found["step"], column["last"], least=column.get("min"), greatest=column.get("max"))

    def live(self, *, timeout_s: float | None = None, show: Callable[["Run"], None] | None = None) -> None:
        """Blocks and shows the run again each time it changed, until it is over or `timeout_s` passed.

        `show` takes the run; without it the cell's output is replaced in IPython, and a line is printed elsewhere.
        """
        shows = _shower() if show is None else show
        ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        before = None
        while True:
            glance = self._glance()
            here = (glance.state, glance.step, len(glance.findings), len(glance.saves))
            if here != before:
                before = here
                shows(self)
            left_s = POLL_S if ends_s is None else min(POLL_S, ends_s - time.monotonic())
            if glance.state.is_over or glance.state is State.ABANDONED or left_s <= 0:
                return
            time.sleep(left_s)

    def __repr__(self) -> str:
        glance = self._glance()
        step = "" if glance.step is None else f", step {glance.step}"
        return f"Run({glance.folder.name} {glance.folder.id}: {glance.state.value}{step})"

    def _repr_html_(self) -> str:
        """State, age of the last step, card and the loss, for a notebook."""
        glance = self._glance()
        age = "" if glance.last_step_unix is None else duration_text(max(glance.now_unix - glance.last_step_unix, 0.0))
        lines = [
            f"<strong>{glance.state.value.upper()}</strong> {html.escape(f'{glance.folder.name} {glance.folder.id}')}"
        ]
        if glance.step is not None:
            of = "" if glance.steps is None else f" of {glance.steps:,}"
            lines.append(f"step {glance.step:,}{of}" + (f", last step {age} ago" if age else ""))
        card = "" if glance.card is None else f"<pre>{html.escape(glance.card.text())}</pre>"
        picture = self.plot("loss")
        drawn = "" if picture is None else picture._repr_html_()
        return "".join(f"<p>{line}</p>" for line in lines) + card + drawn


def _shower() -> Callable[[Run], None]:
    """What shows a run here: the cell's output in IPython, else standard output."""
    if util.find_spec("IPython") is None or import_module("IPython").get_ipython() is None:
        from emberward.cli._console import Screen

        return lambda run: Screen(is_json=False).say(repr(run))
    display = import_module("IPython.display")

    def show(run: Run) -> None:
        display.clear_output(wait=True)
        display.display(run)

    return show
