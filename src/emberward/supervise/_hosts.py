"""The hosts of one run: how commands are started on them, whether they answer, and which take part: mostly pure."""

import shlex
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from emberward.findings import ConfigError, Finding, host_down
from emberward.sources.live import RANK_NAMES

ANSWER_LIMIT_S = 20.0
"""Twice ssh's ConnectTimeout below."""
NOBODY_LIMIT_S, ASK_EVERY_S = 180.0, 2.0
"""How long hosts are asked again while none answers: a controller of SLURM is started again within minutes."""
MAX_SAID_CHARACTERS = 300
_NO_ROOM = ("Memory required by task is not available", "Requested nodes are busy")
"""What srun says while the job's other steps leave no room for one more, as for a moment after its controller came back
(slurm_errno.c of SLURM 22.05): nothing of the host."""
_KNOWN = {
    "local": "",
    "ssh": "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o LogLevel=ERROR {host}",
    "slurm": "srun --nodes=1 --ntasks=1 --nodelist={host} --overlap --cpu-bind=none --kill-on-bad-exit=1 --quiet",
}
_PASSED = ("EMBERWARD_", "NCCL_", "GLOO_", "TORCH", "OMP_", "PYTHON", "CUDA_", "LD_LIBRARY_PATH", "HF_")
"""Variables that reach a host where a launcher would not take them along (ssh). No secret has such a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A host as the person named it, its address on the job's link, and when it booted: the kernel's id of that."""

    name: str
    address: str
    boot: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How a command is started on a host: words before it, in which ``{host}`` is its name. See `launcher_of`."""

    words: tuple[str, ...]
    is_shell: bool

    def command(self, host: str, words: Sequence[str]) -> tuple[str, ...]:
        """The argv that starts `words` on `host`; for ssh one text, as it gives its words to a shell."""
        before = tuple(word.replace("{host}", host) for word in self.words)
        return (*before, shlex.join(words)) if self.is_shell else (*before, *words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """The hosts of a run: those that train, those that stand by, and how many ranks each has."""

    hosts: tuple[Host, ...]
    spares: tuple[Host, ...]
    ranks_per_host: int
    min_hosts: int
    launcher: Launcher

    @property
    def num_ranks(self) -> int:
        """Ranks of all hosts that train."""
        return len(self.hosts) * self.ranks_per_host


def launcher_of(text: str) -> Launcher:
    """The launcher ``local`` (all of them here, for tests), ``ssh``, ``slurm``, or a command with ``{host}`` in it.

    A command that begins with ssh, with options of its own, is one too.

    Raises ConfigError C113 for anything else.
    """
    if text in _KNOWN:
        return Launcher(words=tuple(_KNOWN[text].split()), is_shell=text == "ssh")
    if "{host}" not in text:
        raise ConfigError(
            "the launcher is not understood",
            code="C113",
            where=f"--launcher {text}",
            expected="local, ssh, slurm, or a command with {host} in it",
            found=text,
            next="emberward train RECIPE --hosts A,B --launcher ssh",
        )
    words = tuple(shlex.split(text))
    return Launcher(words=words, is_shell=Path(words[0]).name == "ssh")


def hosts_of(text: str) -> tuple[Host, ...]:
    """The hosts of ``A,B=10.0.0.2``: names, each with its address on the job's link where the name is not one.

    Raises ConfigError C113 for an empty or a repeated name.
    """
    parts = [part.strip().partition("=") for part in text.split(",")]
    names = [name for name, _, _ in parts]
    wrong = next((name for name in names if not name or names.count(name) > 1), None)
    if wrong is not None:
        raise ConfigError(
            "the hosts are not understood",
            code="C113",
            where=f"--hosts {text}",
            expected="each host once, by commas: A,B or A=10.0.0.1,B=10.0.0.2",
            found=f"{wrong!r} twice" if wrong else "an empty name",
            next="emberward train RECIPE --hosts A,B",
        )
    return tuple(Host(name=name, address=address or name) for name, _, address in parts)


def script_for(words: Sequence[str], *, folder: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The words as one shell command that begins in `folder` and has those of our variables that ranks need.

    A launcher's own rank, as srun gives one, is none of ours: one supervisor of a host is no rank.
    """
    unset = [word for name in RANK_NAMES for word in ("-u", name)]
    passed = [f"{name}={value}" for name, value in sorted(environment.items()) if name.startswith(_PASSED)]
    return ("sh", "-c", f"cd {shlex.quote(str(folder))} && exec env {shlex.join([*unset, *passed, *words])}")


def ask_hosts(launcher: Launcher, hosts: Sequence[Host], *, python: str, folder: Path) -> dict[str, str | ConfigError]:
    """host -> the id of its boot, or why it cannot be used. Asks all at once; blocks, at most ANSWER_LIMIT_S."""
    test = f"cd {shlex.quote(str(folder))} && test -x {shlex.quote(python)} && cat /proc/sys/kernel/random/boot_id"
    asked: dict[str, subprocess.Popen[str] | OSError] = {}
    for host in hosts:
        try:
            asked[host.name] = subprocess.Popen(
                launcher.command(host.name, ("sh", "-c", test)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            asked[host.name] = error
    end_s = time.monotonic() + ANSWER_LIMIT_S
    return {name: _answer(name, process, python, folder, end_s) for name, process in asked.items()}


def ask_until_answered(
    launcher: Launcher, hosts: Sequence[Host], *, python: str, folder: Path, is_stopped: Callable[[], bool]
) -> dict[str, str | ConfigError]:
    """The same, asked again while none answers, or one could not be asked. Blocks, NOBODY_LIMIT_S at most, or until
    `is_stopped`."""
    end_s = time.monotonic() + NOBODY_LIMIT_S
    while True:
        answers = ask_hosts(launcher, hosts, python=python, folder=folder)
        is_known = _is_anybody_there(answers) and not any(map(_is_not_asked, answers.values()))
        if is_known or is_stopped() or time.monotonic() > end_s:
            return answers
        time.sleep(ASK_EVERY_S)


def _is_anybody_there(answers: Mapping[str, str | ConfigError]) -> bool:
    return any(isinstance(answer, str) for answer in answers.values())


def _is_not_asked(answer: str | ConfigError) -> bool:
    return isinstance(answer, ConfigError) and any(words in (answer.found or "") for words in _NO_ROOM)


def _answer(
    name: str, process: subprocess.Popen[str] | OSError, python: str, folder: Path, end_s: float
) -> str | ConfigError:
    if isinstance(process, OSError):
        return cannot_use(name, str(process))
    try:
        said, wrong = process.communicate(timeout=max(end_s - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return cannot_use(name, f"no answer within {ANSWER_LIMIT_S:.0f} s")
    if process.returncode == 0:
        return said.strip()
    words = (wrong.strip().splitlines() or [""])[-1]
    return cannot_use(name, words or f"it has no {python}, or does not see {folder} (exit code {process.returncode})")


def cannot_use(name: str, found: str) -> ConfigError:
    """The error that a host cannot be used, with the launcher's own words."""
    return ConfigError(
        "a host cannot be used",
        code="L123",
        where=name,
        expected="a host that starts commands, with this Python and this folder on a shared file system",
        found=found[:MAX_SAID_CHARACTERS],
        next=f"ssh {name} true",
    )


def pick_hosts(candidates: Sequence[Host], *, wanted: int, min_hosts: int) -> tuple[tuple[Host, ...], tuple[Host, ...]]:
    """(those that train, those that stand by) of the candidates in their order.

    As many train as are wanted, else all. Raises ConfigError L123 when they are fewer than `min_hosts`.
    """
    if len(candidates) < min_hosts:
        raise ConfigError(
            "too few hosts can be used",
            code="L123",
            where=", ".join(host.name for host in candidates) or "no host",
            expected=f"{min_hosts} hosts at least",
            found=str(len(candidates)),
            next="repair the hosts that were named, or --min-hosts",
        )
    return tuple(candidates[:wanted]), tuple(candidates[wanted:])


def without(team: Team, lost: Collection[str]) -> Team:
    """The team without those hosts; spares take their very places. Raises ConfigError L123 when too few are left."""
    spares = [host for host in team.spares if host.name not in lost]
    places = [host if host.name not in lost else spares.pop(0) if spares else None for host in team.hosts]
    stay = [host for host in places if host is not None]
    hosts, left = pick_hosts([*stay, *spares], wanted=len(team.hosts), min_hosts=team.min_hosts)
    return replace(team, hosts=hosts, spares=left)


def lost_hosts(before: Sequence[Host], answers: Mapping[str, str | ConfigError]) -> tuple[Finding, ...]:
    """A finding for each host that trained and now gives no answer while another host does, or has booted since.

    Where none answers, it is the way to ask that is gone, as SLURM's controller, and nothing is known of the hosts; nor
    of one for which SLURM had no room to ask.
    """
    if not _is_anybody_there(answers):
        return ()
    found = []
    for host in before:
        answer, why = answers[host.name], None
        if _is_not_asked(answer):
            continue
        if isinstance(answer, ConfigError):
            why = f"does not answer any more: {answer.found}"
        elif host.boot is not None and answer != host.boot:
            why = "has booted again while it trained"
        if why is not None:
            evidence = ("it was asked after the attempt had failed",)
            next = f"look at the console of {host.name}; it is left out until a soak by the doctor passes"
            found.append(host_down(host.name, why, evidence=evidence, next=next))
    return tuple(found)
