"""``emberward check``: its words."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._called import called_as, option_names
from emberward.cli._check import CheckOptions, check_verb
from emberward.cli._check_page import write_check_page
from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption
from emberward.cli._preflight import HardwareOption


def check(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="WHAT", help="A recipe and its keys, traces, a run, or, after --, a script."),
    ] = None,
    ranks: Annotated[int | None, typer.Option("--ranks", help="Number of ranks of the recipe.")] = None,
    all_ranks: Annotated[bool, typer.Option("--all-ranks", help="Run every rank dry, not one of each role.")] = False,
    hardware: HardwareOption = None,
    boxing: Annotated[Path | None, typer.Option("--boxing-csv", help="Write every change of layout here.")] = None,
    nproc: Annotated[int | None, typer.Option("--nproc", min=1, help="Examine a script on this many ranks.")] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Optimizer steps of a script.")] = None,
    time_limit_s: Annotated[float, typer.Option("--time-limit", help="Seconds for a script.")] = 200.0,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write verdict, findings and pictures as this one file.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Prove a recipe before its launch, judge traces of a run, or, with --nproc, examine an unmodified script."""
    given = (*(words or ()), *context.args)

    def checked(verb: Callable[[Screen], int], screen: Screen) -> int:
        code = verb(screen)
        if html is not None:
            write_check_page(" ".join(given), html, screen)
        return code

    if nproc is not None:
        script = ExamineOptions(
            words=given,
            num_ranks=nproc,
            max_steps=max_steps,
            time_limit_s=time_limit_s,
            environment=dict(os.environ),
        )
        guarded(lambda screen: checked(lambda to: examine(script, to), screen), is_json=is_json)
    options = CheckOptions(
        words=given,
        num_ranks=ranks,
        all_ranks=all_ranks,
        hardware=hardware,
        boxing_csv=boxing,
        runs=runs,
        environment=dict(os.environ),
        program=called_as(),
        option_names=option_names(context),
    )
    guarded(lambda screen: checked(lambda to: check_verb(options, to), screen), is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "check",
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        epilog=examples(
            "emberward check bloom_tiny --ranks 8",
            "emberward check --nproc 4 -- train.py --epochs 1",
            "emberward check runs/bloom_tiny/ID",
        ),
    )(check)
