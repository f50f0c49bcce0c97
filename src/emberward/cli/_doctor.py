"""``emberward doctor``: find the sick device, link, host or switch."""

import getpass
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from emberward.cli._console import Screen
from emberward.cli._examination import (
    THIS_HOST,
    Asked,
    Ground,
    enter,
    examine_ground,
    keep,
    ledger_text,
    load_in,
    since_it_worked,
    suspects_in,
    tell,
)
from emberward.cli._examples import examples
from emberward.cli._guard import JsonOption, guarded
from emberward.cli._named_run import DEFAULT_RUNS, RunsOption, require_run
from emberward.doctor import Probe, expand_hosts, parse_probe, read_topology
from emberward.findings import ConfigError, exit_code_of
from emberward.report import RunFolder
from emberward.runs import admit, read_ledger, read_record
from emberward.supervise import absolute, hosts_of, launcher_of

BUDGET_S = 180.0
PROBE_LIMIT_S = 60.0
ASK_LIMIT_S = 15.0
MAX_HOSTS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorOptions:
    """What the command line asked for."""

    run: Path | None
    hosts: str | None
    is_slurm: bool
    budget_s: float
    probes: tuple[str, ...]
    probe_only: bool
    devices_per_host: int | None
    launcher: str | None
    probe_limit_s: float
    topology: Path | None
    seed: int
    runs: Path
    is_compared: bool
    environment: dict[str, str]


def doctor(options: DoctorOptions, screen: Screen) -> int:
    """0 when nothing bad was found, 1 when something was. Blocks, at most the budget and the end of a test."""
    own = [parse_probe(text) for text in options.probes]
    _require_probes(own, options)
    folder, suspects, load = None, frozenset[str](), None
    if options.run is not None:
        folder = RunFolder(path=require_run(options.run, options.runs, verb="doctor"))
        of_run, suspects = suspects_in(folder)
        load = load_in(folder)
        if options.hosts is None and not options.is_slurm:
            options = replace(options, hosts=",".join(of_run) or THIS_HOST)
    if options.is_compared and folder is None:
        raise _usage(
            "there is nothing to compare with", found="--baseline without a run", expected="emberward doctor RUN"
        )
    hosts, addresses = _hosts(options)
    ground = Ground(
        hosts=tuple(hosts),
        launcher=launcher_of(options.launcher or _launcher(options, hosts)),
        environment=options.environment,
        addresses=addresses,
        switches=_switches(options),
        devices_per_host=options.devices_per_host,
    )
    asked = Asked(
        budget_s=options.budget_s,
        probe_limit_s=options.probe_limit_s,
        own=tuple(own),
        only=() if options.probe_only else None,
        seed=options.seed,
        suspects=suspects,
        load=load,
    )
    if suspects:
        screen.say(f"{'suspects':<11} {', '.join(sorted(suspects))}, named in the run's last attempt")
    examined = examine_ground(ground, asked, screen, compares=ground.is_real)
    if options.is_compared and folder is not None:
        if (changed := since_it_worked(examined.told, folder)) is None:
            screen.say("no attempt of this run ended well and told what its hosts were: there is no baseline")
        else:
            examined = replace(examined, findings=(*examined.findings, changed))
    tell(examined, screen)
    if folder is not None:
        keep(examined, folder)
    if ground.is_real and len(ground.hosts) > 1:
        enter(examined, absolute(options.runs), screen, by="emberward doctor")
    screen.document(examined.findings, **examined.document)
    return exit_code_of(examined.findings)


def show_ledger(runs: Path, admitted: Sequence[str], why: str | None, screen: Screen) -> int:
    """0. Admits hosts by a person's word first; raises ConfigError C113 for one that the ledger does not know."""
    for host in admitted:
        if not read_record(runs, host).entries:
            known = ", ".join(read_ledger(runs)) or "no host"
            raise _usage(f"the ledger of {runs} does not know this host", found=host, expected=known)
        admit(runs, host, by=getpass.getuser(), why=why or "repaired")
    screen.say(ledger_text(runs))
    screen.document(
        [],
        ledger=[
            {
                "host": host,
                "is_out": record.out is not None,
                "needs_a_person": record.needs_a_person,
                "strikes": len(record.strikes),
                "entries": [entry.to_json() for entry in record.entries],
            }
            for host, record in read_ledger(runs).items()
        ],
    )
    return 0


def _require_probes(own: Sequence[Probe], options: DoctorOptions) -> None:
    names = [probe.name for probe in own]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _usage("a probe's name is given twice", found=twice, expected="a name for each probe")
    if options.probe_only and not own:
        raise _usage("there is no probe to run", found="--probe-only without --probe", expected="--probe NAME=COMMAND")
    if options.launcher in (None, "local"):
        for probe in own:
            if shutil.which(probe.command[0], path=options.environment.get("PATH")) is None:
                raise _usage("a probe's command is not there", found=probe.command[0], expected="a program on PATH")


def _usage(what: str, *, found: str, expected: str) -> ConfigError:
    return ConfigError(what, code="C113", expected=expected, found=found, next="emberward doctor --help")


def _hosts(options: DoctorOptions) -> tuple[list[str], dict[str, str]]:
    """The hosts, and the addresses of those that have one beside their name."""
    if options.hosts is not None and options.is_slurm:
        raise _usage("hosts are given twice", found="--hosts and --slurm", expected="one of them")
    addresses: dict[str, str] = {}
    if options.is_slurm:
        found = _slurm_hosts(options.environment)
    elif options.hosts is not None and "=" in options.hosts:
        addresses = {host.name: host.address for host in hosts_of(options.hosts)}
        found = list(addresses)
    elif options.hosts is not None:
        found = expand_hosts(options.hosts)
    else:
        return [THIS_HOST], {}
    twice = next((host for host in found if found.count(host) > 1), None) if len(found) <= MAX_HOSTS else None
    bad = next((host for host in found if host.startswith("-") or ":" in host or " " in host), None)
    if not found or twice is not None or bad is not None:
        raise _usage("hosts cannot be read", found=twice or bad or "none", expected="different names, by commas")
    return found, addresses


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


def _launcher(options: DoctorOptions, hosts: Sequence[str]) -> str:
    if options.is_slurm:
        return "slurm"
    return "local" if list(hosts) in ([THIS_HOST], ["localhost"]) else "ssh"


def _switches(options: DoctorOptions) -> dict[str, tuple[str, ...]]:
    if options.topology is not None:
        return read_topology(options.topology.read_text(encoding="utf-8"), where=str(options.topology))
    if options.is_slurm:
        return read_topology(_ask(("scontrol", "show", "topology")), where="scontrol show topology")
    return {}


def doctor_verb(
    run: Annotated[
        Path | None, typer.Argument(help="A run: its hosts, those first that its judge named in the last attempt.")
    ] = None,
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
        str | None, typer.Option("--launcher", help="ssh, slurm, words with {host}, or local: all members here.")
    ] = None,
    probe_limit_s: Annotated[
        float, typer.Option("--probe-limit", min=0.1, help="Seconds that one start of a probe may take.")
    ] = PROBE_LIMIT_S,
    topology: Annotated[
        Path | None, typer.Option("--topology", exists=True, dir_okay=False, help="Switches, as in topology.conf.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The same seed asks for the same sets.")] = 0,
    baseline: Annotated[
        bool, typer.Option("--baseline", help="What has changed on RUN's hosts since it last ended well.")
    ] = False,
    ledger: Annotated[bool, typer.Option("--ledger", help="Show the ledger of hosts instead.")] = False,
    admitted: Annotated[list[str] | None, typer.Option("--admit", help="Take a repaired host back.")] = None,
    why: Annotated[str | None, typer.Option("--why", help="Why, for the ledger.")] = None,
    runs: RunsOption = DEFAULT_RUNS,
    is_json: JsonOption = False,
) -> None:
    """Find the sick device, link, host or switch by tests that cannot harm the doctor."""
    if ledger or admitted:
        guarded(lambda screen: show_ledger(absolute(runs), admitted or (), why, screen), is_json=is_json)
    options = DoctorOptions(
        run=run,
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
        runs=runs,
        is_compared=baseline,
        environment=dict(os.environ),
    )
    guarded(lambda screen: doctor(options, screen), is_json=is_json)


DOCTOR_EPILOG = examples(
    "emberward doctor",
    "emberward doctor --hosts node[1-4] --budget 600 --json",
    "emberward doctor runs/bloom_tiny --baseline",
    "emberward doctor --admit node3 --why 'its card was changed'",
    "emberward doctor --probe burn='python burn.py' --devices-per-host 8",
)


def add_to(app: typer.Typer) -> None:
    """Makes it a verb of the program."""
    app.command("doctor", epilog=DOCTOR_EPILOG)(doctor_verb)
