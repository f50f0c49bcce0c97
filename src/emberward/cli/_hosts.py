"""The hosts of ``emberward train --hosts``: which they are, whether they answer, and which take part."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.cli._console import Screen
from emberward.findings import ConfigError, EmberwardError
from emberward.runs import read_ledger, spared
from emberward.slurm import Slurm, node_names
from emberward.supervise import Host, Team, ask_hosts, hosts_of, launcher_of, pick_hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOptions:
    """What the person asked for. `hosts` None: those of the SLURM job around us. `nnodes` as torchrun has it."""

    hosts: str | None
    launcher: str
    nnodes: str | None
    ranks_per_host: int
    min_hosts: int | None
    environment: Mapping[str, str]


def host_words(options: HostOptions) -> list[str]:
    """The options as they can be typed again."""
    words = [] if options.hosts is None else ["--hosts", options.hosts]
    words += ["--launcher", options.launcher, "--nproc-per-node", str(options.ranks_per_host)]
    words += [] if options.nnodes is None else ["--nnodes", options.nnodes]
    return words + ([] if options.min_hosts is None else ["--min-hosts", str(options.min_hosts)])


def open_team(options: HostOptions, screen: Screen) -> Team:
    """The hosts that answer: those that train, and the spares. Blocks while they are asked.

    Raises ConfigError L123 when fewer answer than are wanted (of a job's own nodes EmberwardError: the exit code is 1),
    C113 for options that are not understood.
    """
    launcher = launcher_of(options.launcher)
    hosts = _listed(options)
    least, wanted = _numbers(options, len(hosts))
    answers = ask_hosts(launcher, hosts, python=sys.executable, folder=Path.cwd())
    usable = []
    refusals = []
    for host in hosts:
        answer = answers[host.name]
        if isinstance(answer, ConfigError):
            refusals.append(answer)
        else:
            usable.append(replace(host, boot=answer))
    if refusals and len(usable) < wanted:
        raise refusals[0] if options.hosts is not None else _of_the_job(refusals[0])
    for refusal in refusals:
        screen.complain(refusal.text())
    training, spares = pick_hosts(usable, wanted=wanted, min_hosts=least)
    return Team(
        hosts=training, spares=spares, ranks_per_host=options.ranks_per_host, min_hosts=least, launcher=launcher
    )


def part_of(team: Team, place: Path, screen: Screen) -> Team:
    """The team without the hosts that the ledger below `place` leaves out, as far as others are there."""
    everybody = (*team.hosts, *team.spares)
    out = still_out(place, [host.name for host in everybody], num_needed=len(team.hosts), screen=screen)
    candidates = [host for host in everybody if host.name not in out]
    training, spares = pick_hosts(candidates, wanted=len(team.hosts), min_hosts=len(team.hosts))
    team = replace(team, hosts=training, spares=spares)
    names = ", ".join(host.name for host in training)
    beside = f"; standing by: {', '.join(host.name for host in spares)}" if spares else ""
    screen.say(f"{'hosts':<11} {names}, {team.ranks_per_host} ranks each{beside}")
    return team


def still_out(place: Path, hosts: Sequence[str], *, num_needed: int, screen: Screen) -> frozenset[str]:
    """Of `hosts`, those that the ledger below `place` leaves out while `num_needed` others are there; says each."""
    records = read_ledger(place)
    taken = spared(records, hosts, num_needed=num_needed)
    out = set()
    for name in hosts:
        strike = records[name].out if name in records else None
        if strike is None:
            continue
        if name in taken:
            screen.complain(f"{'taken back':<11} {name}, as only so {num_needed} hosts are there: {strike.why}")
        else:
            out.add(name)
            screen.complain(f"{'left out':<11} {name}: {strike.why}")
    return frozenset(out)


def _listed(options: HostOptions) -> tuple[Host, ...]:
    """The hosts that were named, or those of the SLURM job around us."""
    if options.hosts is not None:
        return hosts_of(options.hosts)
    nodes = options.environment.get("SLURM_JOB_NODELIST")
    if options.launcher != "slurm" or nodes is None:
        raise ConfigError(
            "the hosts are not known",
            code="C113",
            where=f"--launcher {options.launcher}",
            expected="--hosts A,B; without it, --launcher slurm inside a job",
            found="no --hosts" + ("" if options.launcher != "slurm" else ", and no SLURM job around us"),
            next="emberward train RECIPE --hosts A,B",
        )
    return tuple(Host(name=name, address=name) for name in node_names(Slurm(options.environment), nodes))


def _of_the_job(refusal: ConfigError) -> EmberwardError:
    """A node of a SLURM job that cannot be used is nobody's mistake: the next job of the chain may get another."""
    return EmberwardError(
        refusal.what,
        code=refusal.code,
        where=refusal.where,
        expected=refusal.expected,
        found=refusal.found,
        next=f"srun --nodelist={refusal.where} true",
    )


def _numbers(options: HostOptions, num_hosts: int) -> tuple[int, int]:
    """(the fewest hosts to train on, how many are wanted)."""
    least, wanted = node_numbers(options.nnodes or str(num_hosts), num_hosts=num_hosts)
    fewest = options.min_hosts if options.min_hosts is not None else least
    return min(fewest, wanted), wanted


def node_numbers(text: str, *, num_hosts: int | None = None) -> tuple[int, int]:
    """(fewest, most) of ``N`` or ``MIN:MAX``; raises ConfigError C113 for another text, and for more than there are."""
    least, _, most = text.rpartition(":")
    is_read = most.isdigit() and (not least or least.isdigit()) and 1 <= int(least or most) <= int(most)
    if not is_read or (num_hosts is not None and int(most) > num_hosts):
        bound = "" if num_hosts is None else f" <= {num_hosts}, the hosts that there are"
        raise ConfigError(
            "the number of hosts is not understood",
            code="C113",
            where=f"--nnodes {text}",
            expected=f"N, or MIN:MAX, with 1 <= MIN <= MAX{bound}",
            found=text,
            next="emberward train RECIPE --hosts A,B,C --nnodes 2:3",
        )
    return int(least or most), int(most)
