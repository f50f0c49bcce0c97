"""The verbs that show a run from its folder, as a program of their own and as a part of the whole one.

They load no room that judges or starts anything: a page of a run is there in half the time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunArgument, RunsOption, require_run
from emberward.cli._report import acknowledge, bundle_run, report_run, watch_run
from emberward.cli._runs import list_runs
from emberward.cli._words import PlainCommand
from emberward.report import RunFolder

MAX_RUNS = 30
"""Runs that are shown to people, unless they ask for all."""


def report_verb(
    run: RunArgument,
    bundle: Annotated[
        Path | None,
        typer.Option(
            "--bundle", help="Pack the run's files into this .tar.gz, secrets and host names taken out: for others."
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write the run's page as this one file, hosts, paths and log lines in it: for colleagues."
        ),
    ] = None,
    keep_hosts: Annotated[bool, typer.Option("--keep-hosts", help="Leave host names in the bundle.")] = False,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Summary of a run, from its folder alone."""

    def show(screen: Screen) -> int:
        folder = RunFolder(path=require_run(run, runs, verb="report"))
        if bundle is not None:
            return bundle_run(folder, bundle, screen, keep_hosts=keep_hosts)
        if html is not None:
            from emberward.cli._ui import write_html  # imported here for the time that it saves the other verbs

            return write_html(folder, html, screen)
        return report_run(folder, screen)

    guarded(show, is_json=is_json)


def watch_verb(
    run: RunArgument,
    ack: Annotated[str | None, typer.Option("--ack", help="Acknowledge the findings of this code instead.")] = None,
    silence_s: Annotated[
        float, typer.Option("--silence-s", min=0.0, help="Seconds without notifications and actions for it.")
    ] = 3600.0,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Live view of a run, from its folder alone; ends when the run does. With --ack, a finding is acknowledged."""

    def show(screen: Screen) -> int:
        folder = RunFolder(path=require_run(run, runs, verb="watch"))
        if ack is not None:
            return acknowledge(folder, ack, silence_s=silence_s, screen=screen)
        return watch_run(folder, screen)

    guarded(show, is_json=is_json)


def ui_verb(
    run: Annotated[
        Path | None, typer.Argument(help="A run, or a folder of runs; without it the folder of --runs.")
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="Address to listen on. For any but this machine's own a token is made and stands in the printed link.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            min=0,
            max=65535,
            help="Port of the page, http://127.0.0.1:8642/ if none is given; 0 takes a free one.",
        ),
    ] = 8642,
    name: Annotated[
        list[str] | None, typer.Option("--name", help="A name under which browsers reach this machine.")
    ] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Web page of a run, or of all runs below a folder: live, read-only, for this machine alone unless asked."""

    def show(screen: Screen) -> int:
        from emberward.cli._ui import serve_pages, ui_place  # imported here for the time that it saves the other verbs

        where, only = ui_place(run, runs)
        names = tuple(each.lower() for each in name or ())
        return serve_pages(where, only, screen, host=host, port=port, names=names)

    guarded(show, is_json=is_json)


def runs_verb(
    runs: RunsOption = DEFAULT_RUNS,
    is_all: Annotated[bool, typer.Option("--all", help="All of them, not the latest 30 alone.")] = False,
    is_json: JsonOption = False,
) -> None:
    """Every run with its state, last step, loss, start, and why it ended."""
    guarded(lambda screen: list_runs(runs, screen, limit=None if is_all or is_json else MAX_RUNS), is_json=is_json)


VERBS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "report": (
        report_verb,
        ("emberward report runs/bloom_tiny", "emberward report runs/bloom_tiny/ID --bundle ticket.tar.gz"),
    ),
    "watch": (
        watch_verb,
        ("emberward watch runs/bloom_tiny", "emberward watch runs/train --ack H125 --silence-s 3600"),
    ),
    "ui": (ui_verb, ("emberward ui", "emberward ui runs/bloom_tiny", "emberward ui RUN --port 0")),
    "runs": (runs_verb, ("emberward runs", "emberward runs --runs elsewhere --all")),
}


def add_to(app: typer.Typer) -> None:
    """Makes them verbs of the program."""
    for name, (verb, shown) in VERBS.items():
        app.command(name, epilog=examples(*shown), cls=PlainCommand)(verb)
