"""One examination of hosts, for whatever verb asks: reached, compared, tested, and what follows written down."""

import platform
import shlex
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from emberward.cli._console import Screen, Waiting
from emberward.doctor import (
    FACTS_MODULE,
    SITE_PROGRAMS,
    Examination,
    Fleet,
    HostFacts,
    Load,
    Probe,
    Result,
    Runner,
    ask_hosts_facts,
    builtin_probes,
    changed_since,
    count_devices,
    document_of,
    examine,
    findings_of,
    host_findings,
    sound_hosts,
    table_of,
)
from emberward.findings import ConfigError, Finding, Severity
from emberward.match import explain_finding
from emberward.processes import ProcessTree
from emberward.recipe import read_resolved
from emberward.report import RunFolder, read_json, read_lines, write_json
from emberward.runs import admit, left_out, read_ledger, read_record, strike, strike_of
from emberward.supervise import Launcher

THIS_HOST = platform.node() or "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What is examined and how it is reached. `devices_per_host` None: counted here."""

    hosts: tuple[str, ...]
    launcher: Launcher
    environment: Mapping[str, str]
    addresses: Mapping[str, str] = field(default_factory=dict)
    switches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    devices_per_host: int | None = None

    @property
    def is_here(self) -> bool:
        """Whether every member is started on this machine, whatever its host is called."""
        return not self.launcher.words

    @property
    def is_real(self) -> bool:
        """Whether its hosts are what they are called: simulated ones get no entry in a ledger."""
        return not self.is_here or self.hosts == (THIS_HOST,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How to examine it. `suspects`: hosts (``a``) and devices (``a:3``) to test first. `only`: names of our probes."""

    budget_s: float
    probe_limit_s: float
    own: tuple[Probe, ...] = ()
    only: tuple[str, ...] | None = None
    seed: int = 0
    suspects: frozenset[str] = frozenset()
    is_quick: bool = False
    load: Load | None = None
    """What the soak repeats; None: a block of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What came out: `told` by the hosts themselves, and the tests; None when no host was reached."""

    findings: tuple[Finding, ...]
    told: Mapping[str, HostFacts]
    examination: Examination | None

    @property
    def document(self) -> dict[str, Any]:
        """The document's keys beside its findings."""
        tests = {} if self.examination is None else document_of(self.examination)
        return {**tests, "hosts": {host: each.to_json() for host, each in sorted(self.told.items())}}

    @property
    def skewed(self) -> frozenset[str]:
        """Hosts that differ from their peers in software: what fails there may be a program's fault."""
        return frozenset(host for finding in self.findings if finding.code == "E109" for host in finding.hosts)


def ask_facts(ground: Ground, tree: ProcessTree) -> tuple[dict[str, HostFacts], list[Finding]]:
    """What each host tells of itself, and E107 for those on which nothing can be started. Blocks while they answer."""
    words = (sys.executable, *FACTS_MODULE, str(Path.cwd()))
    if ground.is_here:
        return ask_hosts_facts(ground.hosts[:1], lambda host: words, tree=tree, environment=ground.environment)
    # A host that starts commands and has no Emberward is reached: a site's own probes may run there.
    script = f"cd {shlex.quote(str(Path.cwd()))} && {shlex.join(words)} || true"
    return ask_hosts_facts(
        ground.hosts,
        lambda host: ground.launcher.command(host, ("sh", "-c", script)),
        tree=tree,
        environment=ground.environment,
    )


def examine_ground(ground: Ground, asked: Asked, screen: Screen, *, compares: bool = True) -> Examined:
    """Reaches, compares and tests the hosts. Blocks, at most the budget and the time to reach them and end a test.

    `compares`: whether hosts are asked what they are; they are reached by it, so that only ``local`` may do without.
    """
    require_launcher(ground)
    findings: list[Finding] = []
    told: dict[str, HostFacts] = {}
    hosts = list(ground.hosts)
    with ProcessTree() as tree:
        if compares or not ground.is_here:
            told, lost = ask_facts(ground, tree)
            findings += [*lost, *host_findings(told)]
            hosts = [host for host in hosts if all(host not in finding.hosts for finding in lost)]
        count, kind = ground.devices_per_host, "cpu"
        if hosts and (count is None or asked.only != ()):
            kind, found = count_devices(tree=tree, environment=ground.environment)
            count = count or found
        there = [name for name in SITE_PROGRAMS if shutil.which(name, path=ground.environment.get("PATH"))]
        ours = builtin_probes(kind, programs=there, load=asked.load)
        probes = [*asked.own, *(p for p in ours if asked.only is None or p.name in asked.only)]
        examination = None
        if hosts:
            fleet = Fleet.of(hosts, count or 1, ground.switches)
            screen.say(
                f"{len(fleet)} devices on {len(hosts)} hosts, {len(probes)} probes, {asked.budget_s:g} s at most"
            )
            runner = Runner(
                fleet=fleet,
                tree=tree,
                reach=None if ground.is_here else ground.launcher.command,
                environment=ground.environment,
                limit_s=asked.probe_limit_s,
                addresses=ground.addresses,
            )
            suspected = frozenset(
                number
                for number, device in enumerate(fleet.devices)
                if str(device) in asked.suspects or device.host in asked.suspects
            )
            examination = examine(
                runner,
                probes,
                budget_s=asked.budget_s,
                seed=asked.seed,
                suspected=suspected,
                is_quick=asked.is_quick,
                on_round=_Progress(screen, asked.budget_s),
            )
            findings += findings_of(examination)
    return Examined(findings=tuple(findings), told=told, examination=examination)


def tell(examined: Examined, screen: Screen) -> None:
    """Shows the table and the findings to people."""
    screen.say(text_of(examined))
    examination = examined.examination
    if examination is not None and examination.left_behind:
        screen.say(f"{examination.left_behind} processes that probes left behind were ended")


def text_of(examined: Examined) -> str:
    """The evidence for whoever repairs the machine: what was tested with whom, what failed, and what is concluded."""
    table = [] if examined.examination is None else [table_of(examined.examination)]
    return "\n".join([*table, *(explain_finding(finding) for finding in examined.findings)])


def keep(examined: Examined, folder: RunFolder) -> None:
    """Writes the document and the table into a run's folder, for its page and its bundle. Raises OSError."""
    body = {"schema": 1, "findings": [finding.to_json() for finding in examined.findings], **examined.document}
    write_json(folder.doctor, body)
    folder.doctor_table.write_text(text_of(examined) + "\n", encoding="utf-8")


def keep_hosts(told: Mapping[str, HostFacts], folder: RunFolder, attempt: int) -> None:
    """Writes what the hosts told before this attempt into the run's folder. Raises OSError."""
    path = folder.hosts_file(attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {host: dict(each.facts) for host, each in told.items()})


def since_it_worked(told: Mapping[str, HostFacts], folder: RunFolder) -> Finding | None:
    """What has changed since the last attempt of this run that ended well; None when none was, or it told nothing."""
    ends = [line for line in read_lines(folder.attempts) if line.get("event") == "end"]
    good = [line.get("attempt") for line in ends if line.get("outcome") in ("done", "stopped")]
    for attempt in reversed([number for number in good if isinstance(number, int)]):
        if (before := read_json(folder.hosts_file(attempt))) is not None:
            return changed_since(before, told, attempt=f"attempt {attempt} of {folder.name}/{folder.id}")
    return None


def enter(examined: Examined, runs: Path, screen: Screen, *, by: str) -> list[str]:
    """Writes what follows into the ledger below `runs`: strikes, and soaks that passed; the hosts struck now.

    A host whose software differs from its peers' gets no strike. Raises OSError.
    """
    struck = []
    for finding in examined.findings:
        host = strike_of(finding)
        if host is None:
            continue
        if host in examined.skewed:
            screen.say(f"{host} gets no strike: its software is not its peers', which may be why it fails")
            continue
        strike(runs, finding, by=by)
        struck.append(host)
        screen.say(f"{'left out':<11} {host}: {finding.code} {finding.message}")
    sound = {} if examined.examination is None else sound_hosts(examined.examination)
    for host in sorted(left_out(runs)):
        if host in sound and host not in struck:
            record = admit(runs, host, by=by, why=sound[host], is_soaked=True)
            back = (
                f"stays out: {len(record.strikes)} strikes in 30 days" if record.needs_a_person else "takes part again"
            )
            screen.say(f"{'soak passed':<11} {host} {back}; {sound[host]}")
    return struck


def ledger_text(runs: Path, host: str | None = None) -> str:
    """The ledger below `runs`, or of one host, in lines for people."""
    records = read_ledger(runs) if host is None else {host: read_record(runs, host)}
    lines = []
    for name, record in records.items():
        state = "takes part" if record.out is None else "needs a person" if record.needs_a_person else "left out"
        lines.append(f"{name}: {state}, {len(record.strikes)} strikes")
        lines += [
            f"  {entry.at:%Y-%m-%d %H:%M}  {entry.what.value:<11}  {entry.why}  ({entry.by})"
            for entry in record.entries[-20:]
        ]
    return "\n".join(lines) or f"no host has an entry in the ledger of {runs}/"


def load_in(folder: RunFolder) -> Load | None:
    """The load of a run's recipe; None where it has none that can be read, as under `emberward run`."""
    try:
        return Load.of(read_resolved(folder.config))
    except ConfigError:
        return None


def suspects_in(folder: RunFolder) -> tuple[tuple[str, ...], frozenset[str]]:
    """The hosts of a run, and whom its judge named in its last attempt: hosts, and devices of ranks it named.

    Only errors and warnings count. Reads the run's folder.
    """
    hosts: dict[int, str] = {}
    for path in folder.ranks.glob("rank*.json"):
        said = read_json(path) or {}
        if isinstance(said.get("rank"), int) and said.get("host"):
            hosts[said["rank"]] = str(said["host"])
    lines = list(read_lines(folder.findings))
    last = max((line.get("attempt", 0) for line in read_lines(folder.attempts)), default=0)
    named: set[str] = set()
    for line in lines:
        if line.get("attempt", last) != last or line.get("severity") == Severity.NOTICE.value:
            continue
        named |= {str(host) for host in line.get("hosts") or ()}
        named |= {str(device) for device in line.get("devices") or ()}
        named |= {hosts[rank] for rank in line.get("culprit_ranks") or () if rank in hosts}
    return tuple(sorted(set(hosts.values()))), frozenset(named)


def require_launcher(ground: Ground) -> None:
    """Raises ConfigError C113 when the program that reaches the hosts is not there."""
    program = next(iter(ground.launcher.words), None)
    if program is not None and shutil.which(program, path=ground.environment.get("PATH")) is None:
        raise ConfigError(
            f"{program} is not there",
            code="C113",
            where=f"--launcher {shlex.join(ground.launcher.words)[:80]}",
            expected=f"{program} on PATH",
            found="no such program",
            next="emberward doctor --help",
        )


class _Progress:
    """Says how many rounds of a test there were, and how much of the time is left."""

    def __init__(self, screen: Screen, budget_s: float) -> None:
        self._waiting: dict[str, Waiting] = {}
        self._screen = screen
        self._budget_s = budget_s
        self._began_s = time.monotonic()

    def __call__(self, name: str, number: int, results: Sequence[Result]) -> None:
        """Takes the results of a round."""
        passed_s = time.monotonic() - self._began_s
        if name not in self._waiting:
            self._waiting[name] = Waiting(self._screen, name, limit_s=self._budget_s, parts="rounds")
        self._waiting[name](passed_s, number)
