"""The program: its verbs, and what every verb does with an error."""

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from emberward import __version__
from emberward.cli._check import CheckOptions, check_verb
from emberward.cli._checkpoint_app import checkpoint_app
from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine
from emberward.cli._explain import ExplainOptions, explain_verb
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._incident import incident_app
from emberward.cli._report import acknowledge, bundle_run, report_run, watch_run
from emberward.cli._rewind import require_one_intent, rewind_options
from emberward.cli._run import ActAfterOption, KillSwitchOption, NoRecordOption, NotifyOption, oversight_of, run_verb
from emberward.cli._train import DEFAULT_RUNS, TrainOptions, train
from emberward.runs import Intent

app = typer.Typer(
    name="emberward",
    help="Train large models across many accelerators, and prove, watch and explain every step.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.add_typer(checkpoint_app, name="checkpoint")
app.add_typer(incident_app, name="incident")

HardwareOption = Annotated[
    str | None, typer.Option("--hardware", help="Predict a step's time on a100, h100, h200, ...: docs/preflight.md.")
]
RunsOption = Annotated[Path, typer.Option("--runs", help="Where run folders lie.")]


@app.command(
    "train",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": True},
)
def train_verb(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(help="A preset, file.py[:function], module:function, .yaml or .toml.")],
    ranks: Annotated[int | None, typer.Option("--ranks", help="Number of ranks on this machine.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a new run.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the last run, or with --run-id's.")] = False,
    run_id: Annotated[str | None, typer.Option("--run-id", help="Which run to resume.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Check and show everything, start nothing.")] = False,
    no_check: Annotated[bool, typer.Option("--no-check", help="Start without proving the recipe first.")] = False,
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="How often to start again after a death.")] = 0,
    hardware: HardwareOption = None,
    grace_s: Annotated[
        float, typer.Option("--grace-s", min=0.0, help="Seconds that ranks have to save after a stop.")
    ] = 120.0,
    act_after_s: ActAfterOption = 60.0,
    notify: NotifyOption = None,
    kill_switch: KillSwitchOption = None,
    no_record: NoRecordOption = False,
    rewind: Annotated[int | None, typer.Option("--rewind", help="Go on from the save of this step, otherwise.")] = None,
    skip_samples: Annotated[int | None, typer.Option("--skip-samples", min=0, help="Left out after it.")] = None,
    lr_scale: Annotated[float | None, typer.Option("--lr-scale", help="Factor of the rate after it.")] = None,
    for_steps: Annotated[int | None, typer.Option("--for-steps", min=1, help="Steps of that factor.")] = None,
    undo_rewind: Annotated[bool, typer.Option("--undo-rewind", help="Take the last rewind back.")] = False,
    why: Annotated[str | None, typer.Option("--why", help="Why, for the run's diary.")] = None,
    is_json: JsonOption = False,
) -> None:
    """Check, launch, supervise, resume by itself, end with a summary. Overrides: a.b=c or --a.b c."""
    intent = Intent.FRESH if fresh else Intent.RESUME if resume or run_id is not None else Intent.AUTO
    options = TrainOptions(
        recipe=recipe,
        overrides=tuple(context.args),
        num_ranks=ranks,
        runs=runs,
        intent=intent,
        run_id=run_id,
        is_dry=dry,
        is_checked=not no_check,
        grace_s=grace_s,
        max_restarts=restarts,
        hardware=hardware,
        environment=dict(os.environ),
        oversight=oversight_of(act_after_s=act_after_s, notify=notify, no_record=no_record),
        kill_switch=None if kill_switch is None else kill_switch.absolute(),
        program=program_name(Path(sys.argv[0]), on_path=shutil.which("emberward"), here=Path.cwd()),
    )

    def run(screen: Screen) -> int:
        require_one_intent(is_fresh=fresh, is_resume=resume, run_id=run_id)
        asked = rewind_options(
            rewind,
            skip_samples=skip_samples,
            lr_scale=lr_scale,
            for_steps=for_steps,
            is_undone=undo_rewind,
            is_fresh=fresh,
            why=why,
        )
        return train(replace(options, rewind=asked), screen)

    guarded(run, is_json=is_json)


app.command("run", context_settings={"allow_extra_args": True, "allow_interspersed_args": False})(run_verb)


@app.command("check", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def _check(
    context: typer.Context,
    ranks: Annotated[int | None, typer.Option("--ranks", help="Number of ranks of the recipe.")] = None,
    all_ranks: Annotated[bool, typer.Option("--all-ranks", help="Run every rank dry, not one of each role.")] = False,
    hardware: HardwareOption = None,
    boxing: Annotated[Path | None, typer.Option("--boxing-csv", help="Write every change of layout here.")] = None,
    nproc: Annotated[int | None, typer.Option("--nproc", min=1, help="Examine a script on this many ranks.")] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Optimizer steps of a script.")] = None,
    time_limit_s: Annotated[float, typer.Option("--time-limit", help="Seconds for a script.")] = 200.0,
    is_json: JsonOption = False,
) -> None:
    """Prove a recipe before its launch, judge traces, or examine a script.

    RECIPE [a.b=c ...], or TRACE.jsonl ..., or a run's folder, or --nproc N -- script.py ARGUMENTS.
    """
    if nproc is not None:
        script = ExamineOptions(
            words=tuple(context.args),
            num_ranks=nproc,
            max_steps=max_steps,
            time_limit_s=time_limit_s,
            environment=dict(os.environ),
        )
        guarded(lambda screen: examine(script, screen), is_json=is_json)
    options = CheckOptions(
        words=tuple(context.args),
        num_ranks=ranks,
        all_ranks=all_ranks,
        hardware=hardware,
        boxing_csv=boxing,
        environment=dict(os.environ),
        program=program_name(Path(sys.argv[0]), on_path=shutil.which("emberward"), here=Path.cwd()),
    )
    guarded(lambda screen: check_verb(options, screen), is_json=is_json)


@app.command("explain")
def _explain(
    paths: Annotated[list[str], typer.Argument(help="Dumps, stacks, logs, RAS reports, or folders of them.")],
    sources: Annotated[list[Path] | None, typer.Option("--source", help="Folder with the program's files.")] = None,
    is_json: JsonOption = False,
) -> None:
    """Say who stopped a job and why, from the files that it left. Two folders of one job, or of two, are compared."""
    options = ExplainOptions(paths=tuple(paths), sources=tuple(sources or ()))
    guarded(lambda screen: explain_verb(options, screen), is_json=is_json)


@app.command("report")
def report_verb(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    bundle: Annotated[
        Path | None, typer.Option("--bundle", help="Pack the run for a ticket into this .tar.gz, secrets taken out.")
    ] = None,
    keep_hosts: Annotated[bool, typer.Option("--keep-hosts", help="Leave host names in the bundle.")] = False,
    is_json: JsonOption = False,
) -> None:
    """Summary of a run, from its folder alone."""
    if bundle is not None:
        guarded(lambda screen: bundle_run(run, bundle, screen, keep_hosts=keep_hosts), is_json=is_json)
    guarded(lambda screen: report_run(run, screen), is_json=is_json)


@app.command("watch")
def watch_verb(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    ack: Annotated[str | None, typer.Option("--ack", help="Take up the findings of this code, instead.")] = None,
    silence_s: Annotated[
        float, typer.Option("--silence-s", min=0.0, help="For how long nobody else is told.")
    ] = 3600.0,
    is_json: JsonOption = False,
) -> None:
    """Live view of a run, from its folder alone; ends when the run does. With --ack, a finding is acknowledged."""
    if ack is not None:
        guarded(lambda screen: acknowledge(run, ack, silence_s=silence_s, screen=screen), is_json=is_json)
    guarded(lambda screen: watch_run(run, screen), is_json=is_json)


def program_name(called: Path, *, on_path: str | None, here: Path) -> str:
    """How a person in folder `here` can call the program that was called as `called`: by name alone, or by its path."""
    called = called.absolute()
    if called.name != "emberward" or (on_path is not None and Path(on_path).absolute() == called):
        return "emberward"
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"emberward {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
) -> None:
    """Nothing of its own: the verbs do the work."""
