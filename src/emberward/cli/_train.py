"""``emberward train``: from a recipe's name to the summary of a run."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.live import Live
from rich.text import Text

from emberward import __version__
from emberward.cli._check import proof_details, proof_line
from emberward.cli._console import ProgressLines, Screen, Waiting
from emberward.cli._hosts import HostOptions, host_words, open_team, part_of
from emberward.cli._machine import crowding, require_devices, require_terminals, require_writable
from emberward.cli._named_run import DEFAULT_RUNS
from emberward.cli._preflight import FirstSteps, keep_page, page_of, say_notes
from emberward.cli._prove import TIME_LIMIT_S, prove_recipe
from emberward.cli._rewind import RewindOptions, rewound
from emberward.cli._run import finding_text
from emberward.cli._screening import Screening
from emberward.cli._shown import WAITS_FOR_LAUNCHER, Shown
from emberward.cli._start import start_line
from emberward.data import Manifest, open_tokenizer
from emberward.doctor import Load
from emberward.findings import ConfigError, Finding, exit_code_of
from emberward.layout import DataKind
from emberward.match import explain_finding
from emberward.recipe import Recipe, Resolved, fit_ranks, resolve_fitted
from emberward.report import (
    NextCommand,
    RunFolder,
    plan_text,
    preflight_brief,
    preflight_json,
    preflight_text,
    read_json,
    read_run,
    require_sinks,
    run_json,
    run_text,
    write_json,
)
from emberward.runs import (
    Intent,
    Start,
    begin,
    choose_run,
    new_id,
    prepare_data,
    recipe_digest,
    require_no_kill_switch,
)
from emberward.sources import Certificate
from emberward.supervise import (
    AttemptEnd,
    AttemptOutcome,
    LaunchPlan,
    LaunchResult,
    Oversight,
    Team,
    absolute,
    agent_command,
    decide_restart,
    hold_lock,
    launch,
    launch_on_hosts,
    newest_save,
    without,
)

DEFAULT_OVERSIGHT = Oversight()
THIS_MACHINE = "this machine"
REPLACE_SLOW_S = 600.0


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
    hosts: HostOptions | None = None
    replace_slow_s: float | None = None
    is_verbose: bool = False
    is_screened: bool = False
    program: str = "emberward"
    """How the person can call this program again."""
    option_names: tuple[str, ...] = ()
    """The command's own options, as ``--ranks``: what a misspelt one may have meant."""


def train(options: TrainOptions, screen: Screen) -> int:
    """The exit code of a training on this machine, or on hosts; blocks until it ends."""
    command = (options.program, "train")
    team = None
    if options.hosts is not None:
        team = open_team(options.hosts, screen)
        options = replace(options, num_ranks=team.num_ranks)
    fitted = fit_ranks(
        options.recipe,
        options.overrides,
        num_ranks=options.num_ranks,
        command=command,
        options=options.option_names,
    )
    tokenizer = open_tokenizer(fitted.loaded.recipe.data.tokenizer)
    resolved = resolve_fitted(fitted, options.overrides, tokenizer_size=tokenizer.size, command=command)
    recipe = resolved.recipe
    require_sinks(
        tensorboard=recipe.log.tensorboard, wandb=recipe.log.wandb, prometheus_port=recipe.log.prometheus_port
    )
    page = page_of(resolved, hardware=options.hardware, host=THIS_MACHINE)
    require_terminals(recipe)
    if not options.is_dry:
        kept = tuple(word for word in options.overrides if not word.startswith("device="))
        on_cpu = typed_command(replace(options, overrides=(*kept, "device=cpu")))
        if team is None:
            require_devices(resolved, environment=options.environment, on_cpu=on_cpu)
            page = replace(page, findings=(*page.findings, *crowding(resolved, page, screen)))
    screen.say(plan_text(page))
    say_notes(resolved, page, fitted.notes, screen)
    intent = options.intent if options.rewind is None else Intent.RESUME
    start = choose_run(
        absolute(options.runs),
        resolved,
        intent=intent,
        run_id=options.run_id,
        new_id=new_id(),
        command=typed_command(options),
    )
    if not options.is_dry:
        require_writable(start.folder.path)
    require_no_kill_switch(options.kill_switch or start.folder.kill_switch)
    if team is not None:
        team = part_of(team, start.folder.runs, screen)
    begins = start_line(recipe) if newest_save(start.folder) is None else None
    manifest = _prepared(recipe, screen)
    certificate, findings = _prove(start, resolved, options, screen) if options.is_checked else (None, ())
    if exit_code_of(findings):
        screen.document((*page.findings, *findings), start=start.why, exit_code=1)
        return 1
    if options.rewind is not None:
        start = rewound(start, options.rewind, is_dry=options.is_dry)
    if options.is_dry:
        screen.say(preflight_text(page, width=screen.width))
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
    if options.is_verbose:
        screen.say(preflight_brief(page, width=screen.width))
    screening = Screening(
        start.folder, options.environment, screen, is_asked=options.is_screened, load=Load.of(resolved)
    )
    team, bad = screening.before_start(team)
    if exit_code_of(bad):
        screen.document((*page.findings, *findings, *bad), start=start.why, exit_code=1)
        return 1
    screen.say(f"{'run':<11} {start.why}")
    if begins is not None:
        screen.say(begins)
    screen.say(f"{'folder':<11} {shown_path(start.folder.path)}")
    assert manifest.path is not None
    start.folder.path.mkdir(parents=True, exist_ok=True)
    # Not before it is known that nobody runs here: a start that is refused must leave a running run as it is.
    with hold_lock(start.folder, launcher_pid=os.getpid(), job=options.environment.get("SLURM_JOB_ID")):
        begin(start, resolved, manifest.path)
        if options.is_checked:
            if certificate is not None:
                write_json(start.folder.certificate, certificate.to_json())
            write_json(start.folder.proof, {"recipe": recipe_digest(resolved), "emberward": __version__})
        keep_page(page, resolved, start.folder)
    first_steps = FirstSteps(page, resolved, start.folder, screen)
    result = _launch_again(start, resolved, options, screen, first_steps, team, manifest, screening)
    first_steps.say()
    return leave(start.folder, result, options, screen)


def _prepared(recipe: Recipe, screen: Screen) -> Manifest:
    """The prepared data of a recipe, with what a person should know of it said."""
    manifest = prepare_data(recipe, progress=ProgressLines(screen))
    names = ", ".join(stream.name for stream in manifest.evaluation)
    screen.say(f"{'data':<11} {', '.join(stream.name for stream in manifest.train)}; held out for evaluation: {names}")
    for note in manifest.notes:
        screen.say(f"{'data':<11} {note}")
    return manifest


def _prove(
    start: Start, resolved: Resolved, options: TrainOptions, screen: Screen
) -> tuple[Certificate | None, tuple[Finding, ...]]:
    """The certificate of the recipe and what its proof found, said in one line. One rank has nobody to wait for.

    A run that was proved with this recipe goes on at once, with the certificate that it has: None.
    """
    if resolved.num_ranks == 1:
        return None, ()
    before = read_json(start.folder.proof) or {}
    is_known = before == {"recipe": recipe_digest(resolved), "emberward": __version__}
    if is_known and start.folder.certificate.exists():
        screen.say(f"{'checked':<11} proved at start: every call of every rank ends")
        return None, ()
    waiting = Waiting(screen, "proving the recipe", limit_s=TIME_LIMIT_S, parts="roles ran dry")
    proof = prove_recipe(resolved, environment=options.environment, on_wait=waiting)
    for finding in proof.findings:
        screen.say(explain_finding(finding))
    screen.say(f"{'checked':<11} {proof_line(proof)}")
    if options.is_verbose:
        screen.say(proof_details(proof))
    return proof.certificate, tuple(proof.findings)


def _launch_again(
    start: Start,
    resolved: Resolved,
    options: TrainOptions,
    screen: Screen,
    first_steps: FirstSteps,
    team: Team | None,
    manifest: Manifest,
    screening: Screening,
) -> LaunchResult:
    """The last of as many attempts as the restart policy allows; a failed one is told before the next begins.

    Of several hosts those that an attempt lost take no part in the next: spares do, or the layout is made smaller.
    """
    ends: list[AttemptEnd] = []
    replaced: list[Finding] = []
    why = start.why
    while True:
        screening.keep_hosts(_attempt(start.folder))
        known_slow = frozenset(finding.culprit_ranks for finding in replaced)
        result = _launch(
            start, resolved, options, screen, why, first_steps, team, is_restart=bool(ends), known_slow=known_slow
        )
        saved = newest_save(start.folder)
        codes = tuple(finding.code for finding in result.findings)
        saved_step = None if saved is None else saved[0]
        lost = [finding.hosts[0] for finding in result.lost]
        ends.append(AttemptEnd(outcome=result.outcome, codes=codes, saved_step=saved_step, has_lost_host=bool(lost)))
        restart = decide_restart(ends, max_restarts=options.max_restarts)
        if not restart.is_wanted:
            if result.outcome is AttemptOutcome.FAILED and options.max_restarts:
                screen.say(f"not started again: {restart.why}")
            return result
        if result.death is not None:
            screen.say(result.death)
        why = restart.why
        suspected = screening.after_failure(team, lost) if result.outcome is AttemptOutcome.FAILED else []
        if suspected and team is None:
            screen.say(f"not started again: {suspected[0]} is bad")
            return result
        lost += suspected
        if team is not None and lost:
            replaced += [] if result.outcome is AttemptOutcome.FAILED else result.lost
            try:
                team = without(team, lost)
                resolved = _refitted(start, resolved, options, team, screen, manifest)
            except ConfigError as error:
                screen.say(f"not started again: {error.text()}")
                return result
            why += f" without {', '.join(lost)}, on {', '.join(host.name for host in team.hosts)}"
        screen.say(why)


def _refitted(
    start: Start, resolved: Resolved, options: TrainOptions, team: Team, screen: Screen, manifest: Manifest
) -> Resolved:
    """The recipe for as many ranks as the team has now, proved and written into the run's folder.

    Raises ConfigError when no layout of so many ranks fits the recipe's batch.
    """
    if team.num_ranks == resolved.num_ranks:
        return resolved
    command = (options.program, "train")
    fitted = fit_ranks(options.recipe, options.overrides, num_ranks=team.num_ranks, command=command, keeps_layout=False)
    tokenizer = open_tokenizer(fitted.loaded.recipe.data.tokenizer)
    smaller = resolve_fitted(fitted, options.overrides, tokenizer_size=tokenizer.size, command=command)
    screen.say(f"{'layout':<11} {'; '.join(fitted.notes)}")
    certificate, findings = _prove(start, smaller, options, screen) if options.is_checked else (None, ())
    if exit_code_of(findings):
        raise ConfigError("the smaller layout is not proved", code=findings[0].code, found=findings[0].message)
    begin(start, smaller, manifest.path or Path())
    if options.is_checked:
        start.folder.certificate.unlink(missing_ok=True)
        if certificate is not None:
            write_json(start.folder.certificate, certificate.to_json())
        write_json(start.folder.proof, {"recipe": recipe_digest(smaller), "emberward": __version__})
    return smaller


def _launch(
    start: Start,
    resolved: Resolved,
    options: TrainOptions,
    screen: Screen,
    why: str,
    first_steps: FirstSteps,
    team: Team | None,
    *,
    is_restart: bool,
    known_slow: frozenset[tuple[int, ...]],
) -> LaunchResult:
    folder = start.folder
    starter = launch if team is None else partial(launch_on_hosts, team=team)
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
        replace_slow_s=options.replace_slow_s,
        known_slow=known_slow,
    )

    def tell(finding: Finding) -> None:
        screen.say(finding_text(finding))

    if not screen.is_live:
        return starter(
            plan,
            on_progress=Shown(resolved, folder, screen, None, first_steps),
            on_finding=tell,
        )
    with Live(
        Text(f"starting: {WAITS_FOR_LAUNCHER}"), console=screen.console, refresh_per_second=5, transient=True
    ) as live:
        return starter(
            plan,
            on_progress=Shown(resolved, folder, screen, live, first_steps),
            on_finding=tell,
        )


def _attempt(folder: RunFolder) -> int:
    return read_run(folder).num_attempts + 1


def next_commands(options: TrainOptions, folder: RunFolder, *, is_done: bool) -> list[NextCommand]:
    """What a person can type next, as it has to be typed: the program, the ranks and the runs' place as they were."""
    program, run = shlex.quote(options.program), shlex.quote(shown_path(folder.path))
    report = NextCommand(command=f"{program} report {run}", why="this summary again")
    page = NextCommand(command=f"{program} ui {run}", why="its page in a browser: charts, ranks, findings")
    if not is_done:
        ticket = NextCommand(
            command=f"{program} report {run} --html ticket.html", why="that page as a file, for a ticket"
        )
        has_save = next(folder.checkpoints.glob("step-*"), None) is not None
        again = "go on from the last save" if has_save else "again from the beginning: it has no save yet"
        return [NextCommand(command=typed_command(options), why=again), page, ticket, report]
    own = [NextCommand(command=f"{program} train {shlex.quote(options.recipe)} data.train=my.txt", why="your own text")]
    given = any(word.lstrip("-").startswith("data.train") for word in options.overrides)
    text = NextCommand(command=f'{program} generate {run} "Once upon"', why="more text from this model")
    samples = (read_json(folder.summary) or {}).get("samples", DataKind.TOKENS)
    return [
        *([text] if samples == DataKind.TOKENS else []),
        *([] if given or samples == DataKind.IMAGES else own),
        NextCommand(command=f"{program} checkpoint export {run} hf_model", why="the model for transformers"),
        NextCommand(
            command=f"{typed_command(options)} --fresh log.tensorboard=true", why="curves (or log.wandb=PROJECT)"
        ),
        page,
        report,
    ]


def typed_command(options: TrainOptions) -> str:
    """The command as it can be typed again: the program, the overrides, the ranks and the runs' place as they were."""
    words = [options.program, "train", options.recipe, *options.overrides]
    if options.hosts is not None:
        words += host_words(options.hosts)
    elif options.num_ranks is not None:
        words += ["--ranks", str(options.num_ranks)]
    if options.max_restarts:
        words += ["--restarts", str(options.max_restarts)]
    if options.replace_slow_s is not None and options.replace_slow_s != REPLACE_SLOW_S:
        words += ["--replace-slow", f"{options.replace_slow_s:g}"]
    if options.kill_switch is not None:
        words += ["--kill-switch", str(options.kill_switch)]
    if options.runs != DEFAULT_RUNS:
        words += ["--runs", str(options.runs)]
    return shlex.join(words)


def shown_path(path: Path) -> str:
    """The path as it is shortest from the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def leave(folder: RunFolder, result: LaunchResult, options: TrainOptions, screen: Screen) -> int:
    """The exit code of a training that ended, after its summary was shown."""
    report = read_run(folder)
    commands = next_commands(options, folder, is_done=result.outcome is AttemptOutcome.DONE)
    screen.say("")
    screen.say(run_text(report, next_commands=commands, width=screen.width))
    if result.death is not None:
        screen.say(result.death)
    # What a run found and went on from counts at its end as it does in `emberward report`.
    is_done = result.outcome is AttemptOutcome.DONE
    findings, code = (
        (report.findings, exit_code_of(report.findings)) if is_done else (result.findings, result.exit_code)
    )
    screen.document(findings, **run_json(report), exit_code=code)
    return code
