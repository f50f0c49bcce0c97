"""``emberward --diagnose``: what this machine and installation have, what will not work here, and why.

Every line is tried, not guessed: memory is allocated, a port is listened on, a stack is read, a namespace is entered.
Needs no torch; torch is asked in a child process with a time limit.
"""

import ctypes
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from emberward import __version__
from emberward.cli._console import Screen

SHARED_MEMORY = Path("/dev/shm")
RING_BYTES = 1_300_000
"""Shared memory of a rank: docs/recorder.md, "What it costs"."""
MIN_OPEN_FILES = 1024
TORCH_LIMIT_S = 60.0
TRY_LIMIT_S = 10.0
PORT = 8642
"""Where ``emberward ui`` listens unless told otherwise."""
PACKAGES = ("torch", "numpy", "psutil", "rich", "typer", "safetensors", "tokenizers", "pillow", "transformers")
_TORCH = """
import json, torch, torch.distributed as dist
on = torch.cuda.is_available()
print(json.dumps({"cuda": torch.version.cuda, "devices": [torch.cuda.get_device_name(n) for n in range(
    torch.cuda.device_count() if on else 0)], "gloo": dist.is_available() and dist.is_gloo_available(),
    "nccl": dist.is_available() and dist.is_nccl_available()}))
"""
_SPACES = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
spaces = 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000
sys.exit(0 if libc.unshare(spaces) == 0 or libc.unshare(spaces | 0x10000000) == 0 else ctypes.get_errno())
"""


class Works(StrEnum):
    """Whether something works here."""

    YES = "works"
    PARTLY = "limited"
    NO = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was tried: what was found, what does not work for it, and what would change that."""

    name: str
    works: Works
    found: str
    effect: str | None = None
    next: str | None = None


def diagnose(screen: Screen) -> int:
    """Says what works on this machine; 0. Blocks for seconds, two minutes at most."""
    checks = [check for part in PARTS for check in part()]
    versions = {"emberward": __version__, "python": platform.python_version(), **_versions()}
    screen.say("  ".join(f"{name} {version}" for name, version in versions.items() if version is not None))
    screen.say(f"{platform.platform()}, {os.cpu_count()} processors, {sys.executable}")
    screen.say("")
    for check in checks:
        screen.say(f"{check.works.value:<8} {check.name:<16} {check.found}")
        for label, text in (("so", check.effect), ("next", check.next)):
            if text is not None:
                screen.say(f"{'':<8} {'':<16} {label}: {text}")
    screen.document([], versions=versions, system=platform.platform(), checks=[asdict(check) for check in checks])
    return 0


def _versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def _python() -> Iterator[Check]:
    is_new = sys.version_info >= (3, 11)
    yield Check(
        name="python",
        works=Works.YES if is_new else Works.NO,
        found=f"{platform.python_version()} in {sysconfig.get_path('purelib')}",
        effect=None if is_new else "Emberward needs Python 3.11 or newer",
    )


def _torch() -> Iterator[Check]:
    if _versions()["torch"] is None:
        yield Check(
            name="torch",
            works=Works.NO,
            found="not installed",
            effect="train, check, run's recorder, profile and doctor need it; explain, ui, report, watch, runs and "
            "checkpoint ls, show and convert do not",
            next="pip install 'emberward[train]'",
        )
        return
    try:
        done = subprocess.run(
            [sys.executable, "-c", _TORCH], capture_output=True, text=True, timeout=TORCH_LIMIT_S, check=False
        )
        said = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        yield Check(
            name="torch",
            works=Works.NO,
            found=f"it cannot be imported within {TORCH_LIMIT_S:.0f} s: {type(error).__name__}",
            next=f"{sys.executable} -c 'import torch'",
        )
        return
    backends = [name for name in ("gloo", "nccl") if said[name]]
    yield Check(
        name="torch",
        works=Works.YES if backends else Works.NO,
        found=f"{_versions()['torch']}, backends {', '.join(backends) or 'none'}",
        effect=None if backends else "without torch.distributed nothing that starts ranks works",
    )
    devices = said["devices"]
    has_driver = Path("/dev/nvidiactl").exists()
    yield Check(
        name="devices",
        works=Works.YES if devices else Works.PARTLY,
        found=f"{len(devices)} x {devices[0]}, CUDA {said['cuda']}" if devices else "none that torch sees",
        effect=None if devices else "ranks run on gloo and the CPU; device=cuda is refused",
        next="the driver is there and torch does not use it: install a torch built for CUDA"
        if has_driver and not devices
        else None,
    )


def _shared_memory() -> Iterator[Check]:
    where = SHARED_MEMORY if SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
    try:
        with tempfile.TemporaryFile(dir=where) as file:
            os.posix_fallocate(file.fileno(), 0, RING_BYTES)
        free = shutil.disk_usage(where).free
    except OSError as error:
        yield Check(
            name="shared memory",
            works=Works.NO,
            found=f"{where}: {error.strerror}",
            effect="ranks are not recorded: a hang is seen by its age alone, and no rank is named",
            next=f"free space in {where}, or give the container more (--shm-size)",
        )
        return
    ranks = free // RING_BYTES
    is_memory = where == SHARED_MEMORY
    yield Check(
        name="shared memory",
        works=Works.YES if is_memory and ranks >= 8 else Works.PARTLY,
        found=f"{where}: {free / 2**20:,.0f} MiB free, the rings of {ranks:,} ranks",
        effect=None if is_memory else "rings lie on a disk: a disk that stalls stalls the ranks",
    )


def _memory() -> Iterator[Check]:
    try:
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
        free = next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        yield Check(name="memory", works=Works.PARTLY, found="unknown: no /proc/meminfo",
                    effect="a start is not refused when its ranks do not fit")  # fmt: skip
        return
    yield Check(name="memory", works=Works.YES, found=f"{free / 2**30:.1f} GiB available")


def _files() -> Iterator[Check]:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    is_enough = soft == resource.RLIM_INFINITY or soft >= MIN_OPEN_FILES
    yield Check(
        name="open files",
        works=Works.YES if is_enough else Works.PARTLY,
        found="no limit" if soft == resource.RLIM_INFINITY else f"at most {soft:,}",
        effect=None if is_enough else "a launcher of many ranks and a save of many shards may run out",
        next=None if is_enough else f"ulimit -n {MIN_OPEN_FILES}",
    )
    try:
        with tempfile.TemporaryFile(dir=Path.cwd()):
            pass
    except OSError as error:
        yield Check(name="this folder", works=Works.NO, found=f"{Path.cwd()}: {error.strerror}",
                    effect="runs/ cannot be made here", next="--runs FOLDER, or another folder")  # fmt: skip
    else:
        free = shutil.disk_usage(Path.cwd()).free
        yield Check(name="this folder", works=Works.YES, found=f"can be written, {free / 2**30:.1f} GiB free")


def _listens(address: str, port: int) -> str | None:
    """Why it cannot be listened on; None when it can."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.bind((address, port))
            link.listen(1)
            with socket.create_connection(link.getsockname(), timeout=TRY_LIMIT_S):
                return None
    except OSError as error:
        return error.strerror or str(error)


def _ports() -> Iterator[Check]:
    why = _listens("127.0.0.1", 0)
    yield Check(
        name="local ports",
        works=Works.YES if why is None else Works.NO,
        found="127.0.0.1 can be listened on and reached" if why is None else f"127.0.0.1: {why}",
        effect=None if why is None else "no rank finds another, and there is no page",
    )
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
        why = _listens(address, 0)
    except OSError as error:
        address, why = "no address", error.strerror or str(error)
    yield Check(
        name="host name",
        works=Works.YES if why is None else Works.PARTLY,
        found=f"{name} is {address}" + ("" if why is None else f": {why}"),
        effect=None if why is None else "torchrun cannot meet by this host's name; ranks of one machine can",
        next=None if why is None else f"a line for {name} in /etc/hosts",
    )
    why = _listens("127.0.0.1", PORT)
    yield Check(
        name="page's port",
        works=Works.YES if why is None else Works.PARTLY,
        found=f"{PORT} is free" if why is None else f"{PORT}: {why}",
        next=None if why is None else "emberward ui --port 0",
    )


def _stacks() -> Iterator[Check]:
    spy = shutil.which("py-spy", path=os.pathsep.join((str(Path(sys.executable).parent), os.defpath)))
    if spy is None:
        yield Check(name="stacks", works=Works.NO, found="py-spy is not installed beside this Python",
                    effect="a verdict on a hang has calls and no lines of code", next="pip install py-spy")  # fmt: skip
        return
    child = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        done = subprocess.run(
            [spy, "dump", "--pid", str(child.pid)], capture_output=True, text=True, timeout=TRY_LIMIT_S, check=False
        )
        why = None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    except (OSError, subprocess.TimeoutExpired) as error:
        why = f"{type(error).__name__}: {error}"
    finally:
        child.kill()
        child.communicate()
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    level = scope.read_text(encoding="utf-8").strip() if scope.exists() else "none"
    is_owner_only = why is None and level == "1" and os.geteuid() != 0
    yield Check(
        name="stacks",
        works=Works.NO if why is not None else Works.PARTLY if is_owner_only else Works.YES,
        found=f"py-spy reads a child's stack; ptrace_scope {level}" if why is None else f"ptrace: {why}",
        effect="explain PID of a job that we did not start has no stacks"
        if is_owner_only
        else None
        if why is None
        else "a verdict on a hang has calls and no lines of code",
        next=None
        if why is None and not is_owner_only
        else "sysctl kernel.yama.ptrace_scope=0, or docker run --cap-add SYS_PTRACE, or root",
    )


def _namespaces() -> Iterator[Check]:
    if sys.platform != "linux":
        yield Check(name="namespaces", works=Works.NO, found=f"not on {sys.platform}",
                    effect="check --nproc runs programs that only read")  # fmt: skip
        return
    done = subprocess.run([sys.executable, "-c", _SPACES], timeout=TRY_LIMIT_S, check=False)
    yield Check(
        name="namespaces",
        works=Works.YES if done.returncode == 0 else Works.PARTLY,
        found="a process can have its own view of files and network"
        if done.returncode == 0
        else f"user namespaces: {os.strerror(done.returncode)}",
        effect=None
        if done.returncode == 0
        else "check --nproc runs programs that only read; one that writes is refused",
        next=None if done.returncode == 0 else "sysctl kernel.unprivileged_userns_clone=1, or root",
    )


def _exit_codes() -> Iterator[Check]:
    release = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2] if part.isdecimal())
    is_new = sys.platform == "linux" and release >= (6, 15)
    has_pidfd = hasattr(os, "pidfd_open") and hasattr(ctypes.CDLL(None), "pidfd_open")
    yield Check(
        name="exit codes",
        works=Works.YES if is_new and has_pidfd else Works.PARTLY,
        found=f"{platform.system()} {platform.release()}",
        effect=None if is_new and has_pidfd
        else "of ranks under emberward.watch() a death is seen and its exit code is not; under run and train it is",
    )  # fmt: skip


PARTS: tuple[Callable[[], Iterator[Check]], ...] = (
    _python, _torch, _memory, _shared_memory, _files, _ports, _stacks, _namespaces, _exit_codes,
)  # fmt: skip
