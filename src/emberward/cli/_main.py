"""The program: its verbs, each of which loads its own rooms alone."""

from importlib import import_module
from typing import Annotated

import typer

from emberward import __version__
from emberward.cli._guard import guarded
from emberward.cli._words import PlainGroup

VERB_FILES = {
    "checkpoint": "_checkpoint_app",
    "incident": "_incident",
    "slurm": "_slurm",
    "train": "_train_verb",
    "run": "_run",
    "check": "_check_verb",
    "explain": "_explain",
    "profile": "_profile",
    "manifest": "_manifest",
    "doctor": "_doctor",
    "report": "_window_app",
    "watch": "_window_app",
    "ui": "_window_app",
    "runs": "_window_app",
    "inspect": "_inspect",
    "generate": "_generate",
}
"""Of each verb, in the order in which help shows them, the file whose `add_to` gives it to the program."""


def app_of(word: str | None) -> typer.Typer:
    """The program with the verb that `word` names alone; with every verb where it names none.

    The rooms of all verbs take a processor second to load, longer than a conversion of some hundred megabytes.
    """
    app = typer.Typer(
        name="emberward",
        help="Train large models across many accelerators, and prove, watch and explain every step.",
        no_args_is_help=True,
        add_completion=word not in VERB_FILES,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=PlainGroup,
    )
    for file in dict.fromkeys([VERB_FILES[word]] if word in VERB_FILES else VERB_FILES.values()):
        import_module(f"emberward.cli.{file}").add_to(app)
    app.callback(invoke_without_command=True)(_options)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"emberward {__version__}")
        raise typer.Exit


def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    is_diagnosed: Annotated[
        bool, typer.Option("--diagnose", help="Say what works on this machine, what will not, and why.")
    ] = False,
    is_json: Annotated[bool, typer.Option("--json", help="With --diagnose: one JSON document.")] = False,
) -> None:
    """Nothing of its own: the verbs do the work."""
    if is_diagnosed and context.invoked_subcommand is None:
        from emberward.cli._diagnose import diagnose  # imported here for the time that it saves the verbs

        guarded(diagnose, is_json=is_json)
    if context.invoked_subcommand is None or is_diagnosed or is_json:
        raise typer.BadParameter("name a verb, or --diagnose alone")
