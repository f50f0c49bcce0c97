"""``emberward run``: any command, supervised; its output, its signals and its exit code are its own."""

import itertools
import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption
from emberward.findings import ConfigError, Finding, Severity
from emberward.match import explain_finding
from emberward.report import RunFolder, worst_finding, write_json
from emberward.runs import new_id
from emberward.supervise import (
    ACT_AFTER_S,
    Node,
    Oversight,
    Patience,
    RunPlan,
    RunResult,
    absolute,
    require_part,
    supervise_command,
)

ActAfterOption = Annotated[
    float,
    typer.Option(
        "--act-after", min=0.0, help="Seconds from saying so to ending a job that cannot go on by itself; 0: never."
    ),
]
MaxSilenceOption = Annotated[
    float | None,
    typer.Option(
        "--max-silence",
        min=1.0,
        help="End the job too when a rank that others wait for shows no progress for S seconds.",
    ),
]
NotifyOption = Annotated[
    str | None, typer.Option("--notify", help="A command (finding as JSON on its stdin) or a URL (POST).")
]
KillSwitchOption = Annotated[
    Path | None,
    typer.Option("--kill-switch", help="A file that stops the run; by default beside its runs."),
]
NoRecordOption = Annotated[bool, typer.Option("--no-record", help="Only supervise; record nothing in the ranks.")]
NAME_CHARACTERS = 60
JOIN_TIMEOUT_S = 600.0
KILL_SWITCH, JOINED = "EMBERWARD_KILL_SWITCH", "EMBERWARD_JOINED"
"""As `rank.__main__` reads them: the file that asks ranks to save, and the one where they tell which run is theirs."""
STOP_FILE, JOINED_FILE = "stop-asked", "joined.json"
STDERR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the person asked for."""

    command: tuple[str, ...]
    name: str | None
    runs: Path
    max_restarts: int
    grace_s: float
    oversight: Oversight
    kill_switch: Path | None
    environment: Mapping[str, str]
    excluded: tuple[str, ...] = ()
    has_our_ranks: bool = False
    """Whether the command starts Emberward's own ranks, which tell their run and save when a file asks them to."""


def name_of(command: tuple[str, ...]) -> str:
    """A run's name from its command: the first Python script's, else the module's after ``-m``, else the program's."""
    scripts = [PurePath(word).stem for word in command if word.endswith(".py")]
    modules = [after for word, after in itertools.pairwise(command) if word == "-m"]
    chosen = (scripts or modules or [PurePath(command[0]).name])[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", chosen).strip("-.")[:NAME_CHARACTERS] or "run"


def program_beside(program: str, path: str | None) -> str:
    """The program as it was named; of one that is not on `path`, that beside our Python: an environment's own torchrun.

    A person who calls ``.venv/bin/emberward`` has not activated the environment.
    """
    ours = Path(sys.executable).parent / program
    is_bare = PurePath(program).name == program
    return str(ours) if is_bare and shutil.which(program, path=path) is None and ours.exists() else program


def run_command(options: RunOptions, screen: Screen) -> int:
    """The exit code of the supervised command; blocks until it ends. Raises ConfigError L114 on a host left out."""
    folder, result = supervised(options, screen)
    screen.document(
        result.findings,
        run=str(folder.path),
        outcome=result.outcome.value,
        attempts=result.num_attempts,
        exit_code=result.exit_code,
    )
    return result.exit_code


def rendezvous_s(command: Sequence[str]) -> float | None:
    """How long an elastic torchrun may take to start ranks anew when none lives; None for any other command.

    It waits for other hosts as long as its rendezvous may take: 600 s unless ``--rdzv-conf`` has
    another join_timeout (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, RendezvousTimeout, 2.13).
    """
    text = " ".join(command)
    if re.search(r"--nnodes[= ]\d+:\d+\b", text) is None:
        return None
    found = re.search(r"\bjoin_timeout=(\d+)", text)
    return JOIN_TIMEOUT_S if found is None else float(found[1])


def supervised(options: RunOptions, screen: Screen) -> tuple[RunFolder, RunResult]:
    """The supervisor's folder and how the command ended; blocks until it has. Raises as `run_command`."""
    if not options.command:
        raise ConfigError(
            "there is no command to run",
            code="C113",
            expected="a command after --",
            found="nothing",
            next="emberward run -- torchrun --nproc-per-node 8 train.py",
        )
    node = options.oversight.node
    require_part(
        socket.gethostname() if node is None else node.host,
        excluded=options.excluded,
        mailbox=None if node is None else node.mailbox,
    )
    command = (program_beside(options.command[0], options.environment.get("PATH")), *options.command[1:])
    name = options.name or name_of(options.command)
    folder = RunFolder(path=absolute(options.runs) / name / new_id())
    folder.path.mkdir(parents=True, exist_ok=True)
    write_json(folder.command, {"command": list(command), "folder": str(Path.cwd())})
    environment = dict(options.environment)
    stop_file = folder.path / STOP_FILE if options.has_our_ranks else None
    if stop_file is not None:
        environment |= {KILL_SWITCH: str(stop_file), JOINED: str(folder.path / JOINED_FILE)}
    plan = RunPlan(
        folder=folder,
        command=command,
        environment=environment,
        oversight=options.oversight,
        max_restarts=options.max_restarts,
        grace_s=options.grace_s,
        rendezvous_s=rendezvous_s(command),
        stop_file=stop_file,
        kill_switch=folder.kill_switch if options.kill_switch is None else absolute(options.kill_switch),
        stdout=STDERR if screen.is_json else None,
    )
    result = supervise_command(plan, on_finding=lambda finding: screen.complain(finding_text(finding)))
    if result.findings:
        # What was said when it was seen may be far above by now: launchers end with long tracebacks.
        worst = worst_finding(result.findings) or result.findings[0]
        screen.complain(f"emberward: {worst.code} {worst.message}")
        screen.complain(f"emberward: more: emberward report {folder.path}")
        if options.max_restarts:
            screen.complain(f"emberward: not started again: {result.why}")
    return folder, result


def oversight_of(
    *,
    act_after_s: float,
    max_silence_s: float | None,
    notify: str | None,
    no_record: bool,
    collector: str | None = None,
    address: str | None = None,
    host: str | None = None,
) -> Oversight:
    """How closely to watch, from the options of a command line."""
    node = None if collector is None else node_here(collector, address, host)
    patience = Patience(act_after_s=act_after_s, max_silence_s=max_silence_s)
    return Oversight(patience=patience, notify=notify, is_watched=not no_record, node=node)


def node_here(collector: str, address: str | None, host: str | None = None) -> Node:
    """This host among several. Raises ConfigError C113 when its address on the job's link is not known."""
    host = host or socket.gethostname()
    mailbox = collector if collector.startswith(("http://", "https://")) else str(absolute(Path(collector)))
    try:
        return Node(host=host, address=address or socket.gethostbyname(host), mailbox=mailbox)
    except OSError as error:
        raise ConfigError(
            "this host's address on the job's link is not known",
            code="C113",
            where="--collector",
            expected="--address IP, or a host name that has one",
            found=f"{host}: {error}",
            next="emberward run --collector DIR --address 10.0.0.1 -- torchrun ... train.py",
        ) from error


def finding_text(finding: Finding) -> str:
    """A finding as it is shown when it is seen: an error in full, anything else in a line."""
    if finding.severity is Severity.ERROR:
        return explain_finding(finding)
    return f"emberward: {finding.severity.value} {finding.code} {finding.message}"


def run_verb(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The program, as you start it today.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="The run's name; else the script's.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    restarts: Annotated[int, typer.Option("--restarts", min=0, help="How often to start again after a failure.")] = 0,
    grace_s: Annotated[
        float, typer.Option("--grace-s", min=0.0, help="Seconds from SIGTERM to SIGKILL when we end the job.")
    ] = 10.0,
    act_after_s: ActAfterOption = ACT_AFTER_S,
    max_silence_s: MaxSilenceOption = None,
    notify: NotifyOption = None,
    kill_switch: KillSwitchOption = None,
    no_record: NoRecordOption = False,
    collector: Annotated[
        str | None, typer.Option("--collector", help="Where several hosts tell each other: a shared folder, or a URL.")
    ] = None,
    address: Annotated[str | None, typer.Option("--address", help="This host's address on the job's own link.")] = None,
    host: Annotated[str | None, typer.Option("--host", help="What this host is called; else its own name.")] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="A host that takes no part: nothing starts on it.")
    ] = None,
    is_json: JsonOption = False,
) -> None:
    """Supervise any command, unchanged: record, detect, explain, restart.

    The command's output, signals and exit code stay its own.
    """

    def run(screen: Screen) -> int:
        options = RunOptions(
            command=(*(command or ()), *context.args),
            name=name,
            runs=runs,
            max_restarts=restarts,
            grace_s=grace_s,
            oversight=oversight_of(
                act_after_s=act_after_s,
                max_silence_s=max_silence_s,
                notify=notify,
                no_record=no_record,
                collector=collector,
                address=address,
                host=host,
            ),
            kill_switch=kill_switch,
            environment=dict(os.environ),
            excluded=tuple(exclude or ()),
        )
        return run_command(options, screen)

    guarded(run, is_json=is_json)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command(
        "run",
        context_settings={"allow_extra_args": True, "allow_interspersed_args": False},
        epilog=examples(
            "emberward run -- torchrun --nproc-per-node 8 train.py",
            "emberward run --restarts 3 --name mine -- python train.py",
        ),
    )(run_verb)
