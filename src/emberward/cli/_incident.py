"""``emberward incident ls|run``: known disasters, replayed for real on this machine, each with its healthy twin."""

import os
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen, Waiting
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._words import PlainGroup
from emberward.findings import ConfigError
from emberward.match import explain_finding
from emberward.processes import ProcessTree
from emberward.report import duration_text
from emberward.testing import INCIDENTS, LIMIT_S, Incident, IncidentRunner, Showing, show

incident_app = typer.Typer(
    help="Replay a known disaster for real on this machine, and see the verdict.",
    no_args_is_help=True,
    rich_markup_mode=None,
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
    for each in INCIDENTS:
        screen.say(f"{each.name}   {duration_text(each.seconds)}\n  {each.what}\n  {each.source}")
    screen.say("\nemberward incident run NAME replays one for real, then its healthy twin")
    incidents = [
        {"name": each.name, "what": each.what, "seconds": each.seconds, "source": each.source, "story": each.story}
        for each in INCIDENTS
    ]
    screen.document([], incidents=incidents)
    return 0


def run_incident(name: str, *, parts: tuple[bool, ...], keep: Path | None, limit_s: float, screen: Screen) -> int:
    """0 when every verdict is the right one, else 1. `parts`: False is the disaster, True its twin. Blocks, minutes."""
    incident = find_incident(name)
    screen.say(f"{incident.name}   {incident.source}\n{incident.story}\n")
    showings = []
    with ProcessTree() as tree:
        if keep is None:
            folder = tree.folder("emberward-incident-")
        else:
            keep.mkdir(parents=True, exist_ok=True)
            folder = keep.absolute()
        progress = _Progress(screen, limit_s)
        theatre = IncidentRunner(
            folder=folder, environment=dict(os.environ), tell=screen.say, on_wait=progress, limit_s=limit_s
        )
        for is_twin in parts:
            screen.say("-- the healthy twin" if is_twin else "-- the disaster")
            progress.phase = "the healthy twin" if is_twin else "the disaster"
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


class _Progress:
    """Says how long each command of an incident has taken."""

    def __init__(self, screen: Screen, limit_s: float) -> None:
        self._screen = screen
        self._limit_s = limit_s
        self._last: tuple[str, float] | None = None
        self.phase = ""

    def __call__(self, what: str, passed_s: float) -> None:
        """Takes what is waited for and for how many seconds."""
        if self._last is None or passed_s < self._last[1]:
            self._waiting = Waiting(self._screen, f"{self.phase}: waiting for {what}", limit_s=self._limit_s)
        self._last = (what, passed_s)
        self._waiting(passed_s)


def _tell(showing: Showing, screen: Screen) -> None:
    for finding in showing.findings:
        screen.say(explain_finding(finding))
    for line in showing.wrong:
        screen.complain(f"not as it must be: {line}")
    verdict = "no alarm, as it must be" if showing.is_twin else "the verdict is right"
    screen.say(f"{'WRONG' if showing.wrong else verdict}   {showing.seconds:.1f} s\n")


@incident_app.command("ls", epilog=examples("emberward incident ls", "emberward incident ls --json"))
def _ls(is_json: JsonOption = False) -> None:
    """The incidents that can be replayed."""
    guarded(list_incidents, is_json=is_json)


@incident_app.command(
    "run",
    epilog=examples("emberward incident run bloom-eval-hang", "emberward incident run bloom-limbo --alone --keep here"),
)
def _run(
    name: Annotated[str, typer.Argument(help="Its name, from ls.")],
    twin: Annotated[bool, typer.Option("--twin", help="Only the healthy twin.")] = False,
    alone: Annotated[bool, typer.Option("--alone", help="Only the disaster, without its twin.")] = False,
    keep: Annotated[Path | None, typer.Option("--keep", help="Keep what it wrote in this folder.")] = None,
    limit_s: Annotated[
        float, typer.Option("--limit-s", min=1.0, help="Seconds that each command of the incident may take.")
    ] = LIMIT_S,
    is_json: JsonOption = False,
) -> None:
    """Replay a disaster and its healthy twin. Exit code 0: the verdicts are right, 1: one is not."""
    parts = (True,) if twin else (False,) if alone else (False, True)
    guarded(lambda screen: run_incident(name, parts=parts, keep=keep, limit_s=limit_s, screen=screen), is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.add_typer(incident_app, name="incident", cls=PlainGroup)
