"""What of a host decides how a job runs there: driver, firmware, libraries, kernel, variables, mounts, clock, code.

Standard library only; nothing is imported to ask for its version. A fact that cannot be read is absent.
"""

import contextlib
import hashlib
import importlib.metadata
import os
import platform
import re
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import emberward

ASK_LIMIT_S = 10.0
MAX_VALUE = 200
PACKAGES = ("emberward", "torch", "numpy", "safetensors", "triton", "transformers")
VARIABLES = (
    "NCCL_",
    "GLOO_",
    "TORCH",
    "CUDA_",
    "OMP_",
    "MKL_",
    "UCX_",
    "FI_",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHON",
)
"""Prefixes of the variables that change what a rank does."""
_SECRET = re.compile(r"TOKEN|SECRET|PASS|KEY", re.IGNORECASE)
_LIMITS = {"open files": resource.RLIMIT_NOFILE, "locked memory": resource.RLIMIT_MEMLOCK}


def host_facts(folders: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Name -> value of each fact of this host. `folders`: whose mounts, and of the first whose commit, matter."""
    found = {}
    for name, value in _all(folders, environment):
        found[name] = " ".join(value.split())[:MAX_VALUE]
    return found


def answer(folders: Sequence[str], environment: Mapping[str, str]) -> dict[str, object]:
    """The facts with the time at which they were told, Unix seconds by this host's clock."""
    facts = host_facts(folders, environment)
    return {"ok": True, "facts": facts, "clock_unix": time.time()}


def _all(folders: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    system = os.uname()
    yield "kernel", system.release
    yield "machine", system.machine
    yield "python", platform.python_version()
    yield "libc", " ".join(platform.libc_ver())
    yield "cores", str(os.cpu_count())
    with contextlib.suppress(OSError, ValueError):
        yield "memory", f"{round(os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30)} GiB"
    yield from _of_files()
    yield from _of_gpus()
    yield from _of_packages()
    for name, value in sorted(environment.items()):
        if name.startswith(VARIABLES) and not _SECRET.search(name):
            yield f"variable {name}", value
    for name, limit in _LIMITS.items():
        soft = resource.getrlimit(limit)[0]
        yield f"limit of {name}", "none" if soft == resource.RLIM_INFINITY else str(soft)
    mounts = _mounts()
    for folder in (*folders, "/dev/shm", "/tmp"):
        if (mount := mount_of(os.path.realpath(folder), mounts)) is not None:
            yield f"mount of {folder}", mount
    if folders:
        yield from _of_git(folders[0])


def _of_files() -> Iterator[tuple[str, str]]:
    """What the kernel tells in files: driver, processor, firmware of the board and of network cards."""
    for name, path, pattern in (
        ("driver", "/proc/driver/nvidia/version", r"NVRM version: (.*)"),
        ("processor", "/proc/cpuinfo", r"model name\s*: (.*)"),
        ("microcode", "/proc/cpuinfo", r"microcode\s*: (.*)"),
        ("firmware of the board", "/sys/class/dmi/id/bios_version", r"(.*)"),
        ("transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled", r"\[(\w+)\]"),
        ("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", r"(.*)"),
    ):
        with contextlib.suppress(OSError):
            if match := re.search(pattern, Path(path).read_text(encoding="utf-8", errors="replace")):
                yield name, match[1]
    for name, pattern in (("firmware", "*/fw_ver"), ("rate", "*/ports/*/rate"), ("state", "*/ports/*/state")):
        for card in sorted(Path("/sys/class/infiniband").glob(pattern)):
            with contextlib.suppress(OSError):
                yield f"{name} of network card {card.parts[4]}", card.read_text(encoding="utf-8", errors="replace")


def _of_gpus() -> Iterator[tuple[str, str]]:
    """Names and firmware as nvidia-smi says them, and the version of the NCCL that torch brings."""
    if (program := shutil.which("nvidia-smi")) is not None:
        fields = ("driver_version", "name", "vbios_version", "ecc.mode.current", "clocks.max.sm", "power.limit")
        said = _output(program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader")
        rows = [line.split(", ") for line in said.splitlines()]
        for place, field in enumerate(fields):
            values = [row[place] for row in rows if len(row) == len(fields)]
            if values:
                yield f"GPU {field}", ", ".join(dict.fromkeys(values))
        yield "GPUs", str(len(rows))
    for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield "NCCL", importlib.metadata.version(name)


def _of_packages() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield package, importlib.metadata.version(package)
    root, code = Path(emberward.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        code.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    yield "emberward code", code.hexdigest()[:16]


def _of_git(folder: str) -> Iterator[tuple[str, str]]:
    head = _output("git", "-C", folder, "rev-parse", "HEAD").strip()
    if head:
        changed = _output("git", "-C", folder, "diff", "HEAD")
        yield "commit", head + (f"+{hashlib.sha256(changed.encode()).hexdigest()[:8]}" if changed else "")


def _output(*command: str) -> str:
    """What the program prints; empty when it fails, is missing or gives no answer within ASK_LIMIT_S."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=ASK_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _mounts() -> list[tuple[str, str]]:
    """(mount point, source, type and options), the last mounted last. Source: proc_pid_mountinfo(5)."""
    found = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            before, mark, after = line.partition(" - ")
            fields, rest = before.split(), after.split()
            if mark and len(fields) >= 6 and len(rest) >= 2:
                options = ",".join(sorted(fields[5].split(",")))
                found.append((fields[4].replace("\\040", " "), f"{rest[1]} {rest[0]} {options}"))
    return found


def mount_of(folder: str, mounts: Sequence[tuple[str, str]]) -> str | None:
    """The mount that holds the folder: the longest mount point above it, of equal ones the last."""
    found: tuple[int, str] | None = None
    for point, said in mounts:
        if folder == point or folder.startswith(point.rstrip("/") + "/"):
            found = (len(point), said) if found is None or len(point) >= found[0] else found
    return None if found is None else found[1]
