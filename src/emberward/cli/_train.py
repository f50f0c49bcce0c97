"""``emberward train``: from a recipe's name to the summary of a run."""

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from emberward import __version__
from emberward.cli._check import proof_line
from emberward.cli._console import Screen, Told
from emberward.cli._preflight import FirstSteps, keep_page, page_of, say_notes
from emberward.cli._prove import certified_line, prove_recipe
from emberward.cli._rewind import RewindOptions, rewound
from emberward.cli._run import finding_text
from emberward.cli._start import start_line
from emberward.data import Manifest, open_tokenizer
from emberward.findings import Finding, exit_code_of
from emberward.match import explain_finding
from emberward.recipe import Recipe, Resolved, fit_ranks, resolve_fitted
from emberward.report import (
    LineTail,
    Progress,
    RunFolder,
    duration_text,
    eval_text,
    preflight_brief,
    preflight_json,
    preflight_text,
    progress_text,
    read_json,
    read_run,
    require_sinks,
    run_json,
    run_text,
    step_line,
    write_json,
)
from emberward.runs import Intent, Start, begin, choose_run, new_id, prepare_data, recipe_digest, require_no_kill_switch
from emberward.sources import Certificate
from emberward.supervise import (
    AttemptEnd,
    LaunchPlan,
    LaunchResult,
    Outcome,
    Oversight,
    absolute,
    agent_command,
    decide_restart,
    hold_lock,
    launch,
    newest_save,
)

DEFAULT_RUNS = Path("runs")
DEFAULT_OVERSIGHT = Oversight()
THIS_MACHINE = "this machine"
BAR_WIDTH = 20
MAX_CERTIFICATE_LOOKS = 20
"""Times that the ranks' files are read to say that all ran their first step as proved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """What the person asked for."""

    recipe: str
    overrides: tuple[str, ...]
    num_ranks: int | None
    runs: Path
    intent: Intent
    run_id: str | None
    is_dry: bool
    is_checked: bool
    grace_s: float
    max_restarts: int
    environment: Mapping[str, str]
    hardware: str | None = None
    oversight: Oversight = DEFAULT_OVERSIGHT
    kill_switch: Path | None = None
    rewind: RewindOptions | None = None
    program: str = "emberward"
    """How the person can call this program again."""


def train(options: TrainOptions, screen: Screen) -> int:
    """The exit code of a training on this machine; blocks until it ends."""
    command = (options.program, "train")
    fitted = fit_ranks(options.recipe, options.overrides, num_ranks=options.num_ranks, command=command)
    tokenizer = open_tokenizer(fitted.loaded.recipe.data.tokenizer)
    resolved = resolve_fitted(fitted, options.overrides, tokenizer_size=tokenizer.size, command=command)
    recipe = resolved.recipe
    require_sinks(
        tensorboard=recipe.log.tensorboard, wandb=recipe.log.wandb, prometheus_port=recipe.log.prometheus_port
    )
    page = page_of(resolved, hardware=options.hardware, host=THIS_MACHINE)
    say_notes(resolved, page, fitted.notes, screen)
    intent = options.intent if options.rewind is None else Intent.RESUME
    start = choose_run(absolute(options.runs), resolved, intent=intent, run_id=options.run_id, new_id=new_id())
    require_no_kill_switch(options.kill_switch or start.folder.kill_switch)
    begins = start_line(recipe) if newest_save(start.folder) is None else None
    manifest = _prepared(recipe, screen)
    certificate, findings = _prove(start, resolved, options, screen) if options.is_checked else (None, ())
    if exit_code_of(findings):
        screen.document((*page.findings, *findings), start=start.why, exit_code=1)
        return 1
    if options.rewind is not None:
        start = rewound(start, options.rewind, is_dry=options.is_dry)
    screen.say(preflight_text(page) if options.is_dry else preflight_brief(page))
    if options.is_dry:
        screen.say(f"nothing was started; a start now: {start.why}")
        if begins is not None:
            screen.say(begins)
        screen.document(
            (*page.findings, *findings),
            start=start.why,
            folder=str(start.folder.path),
            num_ranks=resolved.num_ranks,
            preflight=preflight_json(page),
        )
        return 0
    screen.say(start.why)
    if begins is not None:
        screen.say(begins)
    screen.say(f"folder {start.folder.path}")
    assert manifest.path is not None
    start.folder.path.mkdir(parents=True, exist_ok=True)
    # Not before it is known that nobody runs here: a start that is refused must leave a running run as it is.
    with hold_lock(start.folder, launcher_pid=os.getpid()):
        begin(start, resolved, manifest.path)
        if options.is_checked:
            if certificate is not None:
                write_json(start.folder.certificate, certificate.to_json())
            write_json(start.folder.proof, {"recipe": recipe_digest(resolved), "emberward": __version__})
        keep_page(page, resolved, start.folder)
    first_steps = FirstSteps(page, resolved, start.folder, screen)
    result = _launch_again(start, resolved, options, screen, first_steps)
    first_steps.say()
    return leave(start.folder, result, options, screen)


def _prepared(recipe: Recipe, screen: Screen) -> Manifest:
    """The prepared data of a recipe, with what a person should know of it said."""
    manifest = prepare_data(recipe, progress=Told(screen))
    names = ", ".join(stream.name for stream in manifest.evaluation)
    screen.say(f"data {', '.join(stream.name for stream in manifest.train)}; held out for evaluation: {names}")
    for note in manifest.notes:
        screen.say(f"data: {note}")
    return manifest


def _prove(
    start: Start, resolved: Resolved, options: TrainOptions, screen: Screen
) -> tuple[Certificate | None, tuple[Finding, ...]]:
    """The certificate of the recipe and what its proof found, said in one line.

    A run that was proved with this recipe goes on at once, with the certificate that it has: None.
    """
    before = read_json(start.folder.proof) or {}
    is_known = before == {"recipe": recipe_digest(resolved), "emberward": __version__}
    if is_known and start.folder.certificate.exists():
        screen.say("proved when it began: every call of every rank ends")
        return None, ()
    proof = prove_recipe(resolved, environment=options.environment)
    for finding in proof.findings:
        screen.say(explain_finding(finding))
    screen.say(proof_line(proof))
    return proof.certificate, tuple(proof.findings)


class _Shown:
    """Shows a run while it goes: one live line on a terminal, else one plain line each log interval.

    Evaluations and saves are worth a line that stays; on a terminal it stands above the live one.
    """

    def __init__(
        self, resolved: Resolved, folder: RunFolder, screen: Screen, live: Live | None, first_steps: FirstSteps
    ) -> None:
        recipe = resolved.recipe
        self._first_steps = first_steps
        self._folder = folder
        self._evals = LineTail(folder.evals, from_end=True)
        self._began_s = time.monotonic()
        self._interval = recipe.log.interval
        self._steps = recipe.steps or 0
        self._screen = screen
        self._live = live
        self._last_phase: str | None = None
        self._num_ranks = resolved.num_ranks
        self._num_looks = MAX_CERTIFICATE_LOOKS if folder.certificate.exists() else 0

    def __call__(self, progress: Progress, steps: Sequence[Mapping[str, Any]]) -> None:
        if self._live is None:
            for metrics in steps:
                if metrics["step"] % self._interval == 0:
                    self._screen.say(step_line(metrics, steps=self._steps))
            if progress.phase != self._last_phase and progress.phase in ("save", "sample"):
                self._screen.say(progress_text(progress))
            self._last_phase = progress.phase
        self._first_steps.look(steps)
        if steps and self._num_looks:
            line = certified_line(self._folder, self._num_ranks)
            self._num_looks = 0 if line is not None else self._num_looks - 1
            if line is not None:
                self._screen.say(line)
        for found in self._evals.poll():
            self._screen.say(eval_text(found))
        if self._live is not None:
            self._live.update(self._line(progress))

    def _line(self, progress: Progress) -> Text:
        text = progress_text(progress)
        if progress.phase is None:
            text = f"starting the ranks  {duration_text(time.monotonic() - self._began_s)}"
        elif progress.step is not None and progress.steps:
            done = BAR_WIDTH * progress.step // progress.steps
            text = f"{'━' * done}{'─' * (BAR_WIDTH - done)}  {text}"
        return Text(text, no_wrap=True, overflow="ellipsis")


def _launch_again(
    start: Start, resolved: Resolved, options: TrainOptions, screen: Screen, first_steps: FirstSteps
) -> LaunchResult:
    """The last of as many attempts as the restart policy allows; a failed one is told before the next begins."""
    ends: list[AttemptEnd] = []
    why = start.why
    while True:
        result = _launch(start, resolved, options, screen, why, first_steps, is_restart=bool(ends))
        saved = newest_save(start.folder)
        codes = tuple(finding.code for finding in result.findings)
        ends.append(AttemptEnd(outcome=result.outcome, codes=codes, saved_step=None if saved is None else saved[0]))
        restart = decide_restart(ends, max_restarts=options.max_restarts)
        if not restart.is_wanted:
            if result.outcome is Outcome.FAILED and options.max_restarts:
                screen.say(f"not started again: {restart.why}")
            return result
        if result.death is not None:
            screen.say(result.death)
        screen.say(restart.why)
        why = restart.why


def _launch(
    start: Start,
    resolved: Resolved,
    options: TrainOptions,
    screen: Screen,
    why: str,
    first_steps: FirstSteps,
    *,
    is_restart: bool,
) -> LaunchResult:
    folder = start.folder
    plan = LaunchPlan(
        folder=folder,
        num_ranks=resolved.num_ranks,
        command=agent_command(folder=folder, num_ranks=resolved.num_ranks, attempt=_attempt(folder)),
        environment=options.environment,
        why=why,
        config=recipe_digest(resolved),
        grace_s=options.grace_s,
        oversight=options.oversight,
        kill_switch=options.kill_switch,
        is_restart=is_restart,
    )

    def tell(finding: Finding) -> None:
        screen.say(finding_text(finding))

    if not screen.is_live:
        return launch(
            plan,
            on_progress=_Shown(resolved, folder, screen, None, first_steps),
            on_finding=tell,
        )
    with Live(Text("starting the ranks"), console=screen.console, refresh_per_second=5, transient=True) as live:
        return launch(
            plan,
            on_progress=_Shown(resolved, folder, screen, live, first_steps),
            on_finding=tell,
        )


def _attempt(folder: RunFolder) -> int:
    return read_run(folder).num_attempts + 1


def next_commands(options: TrainOptions, folder: RunFolder, *, is_done: bool) -> list[str]:
    """What a person can type next, as it has to be typed: the program, the ranks and the runs' place as they were."""
    words = [options.program, "train", options.recipe, *options.overrides]
    if options.num_ranks is not None:
        words += ["--ranks", str(options.num_ranks)]
    if options.max_restarts:
        words += ["--restarts", str(options.max_restarts)]
    if options.kill_switch is not None:
        words += ["--kill-switch", str(options.kill_switch)]
    if options.runs != DEFAULT_RUNS:
        words += ["--runs", str(options.runs)]
    again, report = shlex.join(words), f"{options.program} report {shlex.quote(str(folder.path))}"
    if not is_done:
        return [f"{again}   (resumes)", report]
    saves = f"{options.program} checkpoint ls {shlex.quote(str(folder.path))}"
    return [report, saves, f"{again} --fresh"]


def leave(folder: RunFolder, result: LaunchResult, options: TrainOptions, screen: Screen) -> int:
    """The exit code of a training that ended, after its summary was shown."""
    report = read_run(folder)
    commands = next_commands(options, folder, is_done=result.outcome is Outcome.DONE)
    screen.say("")
    screen.say(run_text(report, next_commands=commands))
    if result.death is not None:
        screen.say(result.death)
    # What a run found and went on from counts at its end as it does in `emberward report`.
    is_done = result.outcome is Outcome.DONE
    findings, code = (
        (report.findings, exit_code_of(report.findings)) if is_done else (result.findings, result.exit_code)
    )
    screen.document(findings, **run_json(report), exit_code=code)
    return code
