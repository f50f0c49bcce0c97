"""``emberward incident ls|run``: known disasters, replayed for real on this machine, each with its healthy twin."""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._guard import JsonOption, guarded
from emberward.findings import ConfigError
from emberward.match import explain_finding
from emberward.report import table
from emberward.testing import INCIDENTS, Incident, Showing, Theatre, show

incident_app = typer.Typer(
    help="Replay a known disaster for real on this machine, and see the verdict.", no_args_is_help=True
)


def find_incident(name: str) -> Incident:
    """The incident of that name. Raises ConfigError C113 when there is none, with those that there are."""
    for incident in INCIDENTS:
        if incident.name == name:
            return incident
    raise ConfigError(
        "there is no such incident",
        code="C113",
        where=name,
        expected=", ".join(incident.name for incident in INCIDENTS),
        found=name,
        next="emberward incident ls",
    )


def list_incidents(screen: Screen) -> int:
    """Shows the incidents; 0."""
    rows = [[each.name, f"{each.seconds} s", each.source] for each in INCIDENTS]
    for line in table(["incident", "about", "source"], rows):
        screen.say(line)
    incidents = [
        {"name": each.name, "seconds": each.seconds, "source": each.source, "story": each.story} for each in INCIDENTS
    ]
    screen.document([], incidents=incidents)
    return 0


def run_incident(name: str, *, parts: tuple[bool, ...], keep: Path | None, screen: Screen) -> int:
    """0 when every verdict is the right one, else 1. `parts`: False is the disaster, True its twin. Blocks, minutes."""
    incident = find_incident(name)
    screen.say(f"{incident.name}   {incident.source}\n{incident.story}\n")
    showings = []
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="emberward-incident-")))
        else:
            keep.mkdir(parents=True, exist_ok=True)
            folder = keep.absolute()
        theatre = Theatre(folder=folder, environment=dict(os.environ), tell=screen.say)
        for is_twin in parts:
            screen.say("-- the healthy twin" if is_twin else "-- the disaster")
            showing = show(incident, theatre, is_twin=is_twin)
            showings.append(showing)
            _tell(showing, screen)
    screen.document(
        [finding for showing in showings for finding in showing.findings],
        incident=incident.name,
        showings=[
            {
                "is_twin": each.is_twin,
                "is_right": not each.wrong,
                "wrong": each.wrong,
                "seconds": round(each.seconds, 1),
            }
            for each in showings
        ],
    )
    return 1 if any(showing.wrong for showing in showings) else 0


def _tell(showing: Showing, screen: Screen) -> None:
    for finding in showing.findings:
        screen.say(explain_finding(finding))
    for line in showing.wrong:
        screen.complain(f"not as it must be: {line}")
    verdict = "no alarm, as it must be" if showing.is_twin else "the verdict is right"
    screen.say(f"{'WRONG' if showing.wrong else verdict}   {showing.seconds:.1f} s\n")


@incident_app.command("ls")
def _ls(is_json: JsonOption = False) -> None:
    """The incidents that can be replayed."""
    guarded(list_incidents, is_json=is_json)


@incident_app.command("run")
def _run(
    name: Annotated[str, typer.Argument(help="Its name, from ls.")],
    twin: Annotated[bool, typer.Option("--twin", help="Only the healthy twin.")] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Only the disaster, without its twin.")] = False,
    keep: Annotated[Path | None, typer.Option("--keep", help="Keep what it wrote in this folder.")] = None,
    is_json: JsonOption = False,
) -> None:
    """Replay a disaster and its healthy twin. Exit code 0: the verdicts are right, 1: one is not."""
    parts = (True,) if twin else (False,) if alone else (False, True)
    guarded(lambda screen: run_incident(name, parts=parts, keep=keep, screen=screen), is_json=is_json)
