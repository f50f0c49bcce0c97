"""``emberward doctor``: find the sick device, link, host or switch."""

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.doctor import (
    Examination,
    Fleet,
    Launcher,
    Probe,
    Result,
    Runner,
    builtin_probes,
    count_devices,
    document_of,
    examine,
    expand_hosts,
    findings_of,
    parse_probe,
    read_topology,
    table_of,
    unreached,
)
from emberward.findings import ConfigError, Finding, exit_code_of
from emberward.match import explain_finding
from emberward.processes import ProcessTree

BUDGET_S = 180.0
PROBE_LIMIT_S = 60.0
ASK_LIMIT_S = 15.0
MAX_HOSTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What the command line asked for."""

    hosts: str | None
    is_slurm: bool
    budget_s: float
    probes: tuple[str, ...]
    probe_only: bool
    devices_per_host: int | None
    launcher: Launcher | None
    probe_limit_s: float
    topology: Path | None
    seed: int
    environment: dict[str, str]


def doctor(options: DoctorOptions, screen: Screen) -> int:
    """0 when nothing bad was found, 1 when something was. Blocks, at most the budget and the end of a test."""
    own = [parse_probe(text) for text in options.probes]
    _require_probes(own, options)
    hosts = _hosts(options)
    launcher = options.launcher or _launcher(options, hosts)
    _require_launcher(launcher)
    switches = _switches(options)
    findings: list[Finding] = []
    with ProcessTree() as tree:
        if launcher is not Launcher.LOCAL:
            lost = unreached(hosts, launcher, tree=tree, environment=options.environment)
            findings += lost
            hosts = [host for host in hosts if all(host not in finding.hosts for finding in lost)]
        count = options.devices_per_host
        kind = "cpu"
        if hosts and (count is None or not options.probe_only):
            kind, found = count_devices(tree=tree, environment=options.environment)
            count = count or found
        fleet = Fleet.of(hosts, count or 1, switches)
        probes = [*own, *(() if options.probe_only else builtin_probes(kind))]
        examination = None
        if hosts:
            screen.say(
                f"{len(fleet)} devices on {len(hosts)} hosts, {len(probes)} probes, {options.budget_s:g} s at most"
            )
            runner = Runner(
                fleet=fleet,
                tree=tree,
                launcher=launcher,
                environment=options.environment,
                limit_s=options.probe_limit_s,
            )
            examination = examine(
                runner, probes, budget_s=options.budget_s, seed=options.seed, on_round=_Progress(screen)
            )
            findings += findings_of(examination)
    _tell(findings, examination, screen)
    screen.document(findings, **({} if examination is None else document_of(examination)))
    return exit_code_of(findings)


def _tell(findings: Sequence[Finding], examination: Examination | None, screen: Screen) -> None:
    if examination is not None:
        screen.say(table_of(examination))
        if examination.left_behind:
            screen.say(f"{examination.left_behind} processes that probes left behind were ended")
    for finding in findings:
        screen.say(explain_finding(finding))


class _Progress:
    """Says what failed when it does, and now and then how many rounds there were."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._next = 25

    def __call__(self, name: str, number: int, results: Sequence[Result]) -> None:
        """Takes the results of a round."""
        if number == 1:
            self._next = 25
        if number >= self._next:
            self._screen.say(f"{name}: {number} rounds")
            self._next *= 2


def _require_probes(own: Sequence[Probe], options: DoctorOptions) -> None:
    names = [probe.name for probe in own]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _usage("a probe's name is given twice", found=twice, expected="a name for each probe")
    if options.probe_only and not own:
        raise _usage("there is no probe to run", found="--probe-only without --probe", expected="--probe NAME=COMMAND")
    if options.launcher in (None, Launcher.LOCAL):
        for probe in own:
            if shutil.which(probe.command[0], path=options.environment.get("PATH")) is None:
                raise _usage("a probe's command is not there", found=probe.command[0], expected="a program on PATH")


def _usage(what: str, *, found: str, expected: str) -> ConfigError:
    return ConfigError(what, code="C113", expected=expected, found=found, next="emberward doctor --help")


def _hosts(options: DoctorOptions) -> list[str]:
    if options.hosts is not None and options.is_slurm:
        raise _usage("hosts are given twice", found="--hosts and --slurm", expected="one of them")
    if options.is_slurm:
        found = _slurm_hosts(options.environment)
    elif options.hosts is not None:
        found = expand_hosts(options.hosts)
    else:
        return [platform.node() or "localhost"]
    twice = next((host for host in found if found.count(host) > 1), None) if len(found) <= MAX_HOSTS else None
    bad = next((host for host in found if host.startswith("-") or ":" in host or " " in host), None)
    if not found or twice is not None or bad is not None:
        raise _usage("hosts cannot be read", found=twice or bad or "none", expected="different names, by commas")
    return found


def _slurm_hosts(environment: dict[str, str]) -> list[str]:
    """The hosts of our allocation, or, outside of one, those that are idle."""
    inside = environment.get("SLURM_JOB_NODELIST")
    if inside:
        return expand_hosts(inside)
    said = _ask(("sinfo", "--noheader", "--states=idle", "--format=%N"))
    return [host for line in said.splitlines() for host in expand_hosts(line.strip())]


def _ask(command: tuple[str, ...]) -> str:
    """What a program of SLURM says. Raises ConfigError when it is missing, fails or does not answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_LIMIT_S, check=False)
    except FileNotFoundError as error:
        raise _usage(f"{command[0]} is not there", found="no SLURM here", expected="--hosts A,B") from error
    except subprocess.TimeoutExpired as error:
        raise _usage(
            f"{command[0]} does not answer",
            found=f"nothing in {ASK_LIMIT_S:.0f} s",
            expected="a controller that answers",
        ) from error
    if done.returncode:
        found = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise _usage(f"{command[0]} failed", found=found, expected="a controller that answers")
    return done.stdout


def _launcher(options: DoctorOptions, hosts: Sequence[str]) -> Launcher:
    if options.is_slurm:
        return Launcher.SLURM
    return Launcher.LOCAL if list(hosts) in ([platform.node()], ["localhost"]) else Launcher.SSH


def _require_launcher(launcher: Launcher) -> None:
    program = {Launcher.SSH: "ssh", Launcher.SLURM: "srun"}.get(launcher)
    if program is not None and shutil.which(program) is None:
        raise _usage(f"{program} is not there", found=f"--launcher {launcher.value}", expected=f"{program} on PATH")


def _switches(options: DoctorOptions) -> dict[str, tuple[str, ...]]:
    if options.topology is not None:
        return read_topology(options.topology.read_text(encoding="utf-8"), where=str(options.topology))
    if options.is_slurm:
        return read_topology(_ask(("scontrol", "show", "topology")), where="scontrol show topology")
    return {}


def doctor_verb(
    hosts: Annotated[str | None, typer.Option("--hosts", help="Hosts to examine, by commas; a[1-4] works.")] = None,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="The hosts of this allocation, or those that are idle.")
    ] = False,
    budget_s: Annotated[float, typer.Option("--budget", min=1.0, help="Seconds at most.")] = BUDGET_S,
    probes: Annotated[list[str] | None, typer.Option("--probe", help="NAME=COMMAND: a probe of your own.")] = None,
    probe_only: Annotated[bool, typer.Option("--probe-only", help="Leave out the built-in probes.")] = False,
    devices_per_host: Annotated[
        int | None, typer.Option("--devices-per-host", min=1, max=1024, help="Devices of each host; else counted here.")
    ] = None,
    launcher: Annotated[
        Launcher | None, typer.Option("--launcher", help="How members are started; local: all of them here.")
    ] = None,
    probe_limit_s: Annotated[
        float, typer.Option("--probe-limit", min=0.1, help="Seconds that one start of a probe may take.")
    ] = PROBE_LIMIT_S,
    topology: Annotated[
        Path | None, typer.Option("--topology", exists=True, dir_okay=False, help="Switches, as in topology.conf.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed asks for the same sets.")] = 0,
    is_json: JsonOption = False,
) -> None:
    """Find the sick device, link, host or switch by tests that cannot harm the doctor."""
    options = DoctorOptions(
        hosts=hosts,
        is_slurm=slurm,
        budget_s=budget_s,
        probes=tuple(probes or ()),
        probe_only=probe_only,
        devices_per_host=devices_per_host,
        launcher=launcher,
        probe_limit_s=probe_limit_s,
        topology=topology,
        seed=seed,
        environment=dict(os.environ),
    )
    guarded(lambda screen: doctor(options, screen), is_json=is_json)


DOCTOR_EPILOG = examples(
    "emberward doctor",
    "emberward doctor --hosts node[1-4] --budget 600 --json",
    "emberward doctor --probe burn='python burn.py' --devices-per-host 8",
)
