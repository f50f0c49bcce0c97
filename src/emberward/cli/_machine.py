"""What a start needs of this machine, found before anything is proved or started: devices, memory, a place to write."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from emberward.cli._console import Screen
from emberward.findings import Cause, Certainty, ConfigError, Finding, Severity, require_code
from emberward.recipe import DebugVerb, Device, Recipe, Resolved, devices_needed, no_terminal, parse_debug
from emberward.report import Preflight
from emberward.sources.peak import usable_cores

PROCESS_BYTES = 267_000_000
"""Memory of a rank's process beside what is planned: 298 and 304 MB anonymous (``smaps_rollup``) with 35 MB planned.

Measured with bloom_tiny on 2 ranks of a CPU, torch 2.13, 2026-11-22. Pages of libraries, which are shared, come on top.
"""
_LIMIT_S = 120.0
_COUNT = "import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 0)"
_NVIDIA = Path("/dev/nvidiactl")
_MEMORY = re.compile(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", re.MULTILINE)
_GIB = 2**30


def require_torch(what: str) -> None:
    """Raises ConfigError C110 where torch is not installed; `what` names what needs it. Does not import it."""
    if find_spec("torch") is None:
        raise ConfigError(
            "torch is not installed",
            code="C110",
            where=what,
            expected="torch of 2.11 or newer in this environment",
            found=sys.executable,
            next="pip install 'emberward[train]'      (emberward --diagnose says what works without)",
        )


def require_terminals(recipe: Recipe) -> None:
    """Raises ConfigError C117 for a debug operation that stops with a prompt: the launcher's ranks have no terminal."""
    for text in recipe.debug:
        if parse_debug(text).verb is DebugVerb.STOP:
            raise no_terminal(text)


def require_writable(folder: Path) -> None:
    """Raises ConfigError C112 unless `folder` can be made and written. Leaves nothing behind."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return
    except OSError as error:
        raise ConfigError(
            "the run's folder cannot be made",
            code="C112",
            where=str(folder),
            expected="a folder that can be written",
            found=f"{place}: {error.strerror or type(error).__name__}",
            next="--runs with another folder",
        ) from error


def require_devices(resolved: Resolved, *, environment: Mapping[str, str], on_cpu: str) -> None:
    """Raises ConfigError C104 when the recipe asks for CUDA and torch sees fewer devices than its ranks need.

    Asks torch in a child process, only when CUDA was asked for. `on_cpu` is the command that would start on the CPU.
    """
    if resolved.recipe.device is not Device.CUDA:
        return
    child = subprocess.run(
        [sys.executable, "-c", _COUNT],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    words = child.stdout.split()
    num_devices = int(words[-1]) if words and words[-1].isdigit() else 0
    num_needed = devices_needed(resolved.recipe.backend, resolved.num_ranks)
    if num_devices < num_needed:
        raise ConfigError(
            "too few CUDA devices for the ranks of this host",
            code="C104",
            where=f"device=cuda ({resolved.origins['device']})",
            expected=f"{num_needed} device{'s, one for each rank' if num_needed > 1 else ''}",
            found=str(num_devices),
            next=on_cpu + ("      (or backend=gloo: ranks share devices)" if num_devices else ""),
        )


def is_on_cpu(recipe: Recipe) -> bool:
    """Whether ranks will compute on this machine's processor, as far as is known without torch."""
    return recipe.device is Device.CPU or (recipe.device is Device.AUTO and not _NVIDIA.exists())


def crowding_note(num_ranks: int, num_cores: int) -> str | None:
    """What a person should know of more ranks than cores; None when each has one. Pure."""
    if num_ranks <= num_cores:
        return None
    cores = f"{num_cores} core{'s' if num_cores != 1 else ''}"
    times = f"{num_ranks / num_cores:.3g}"
    return f"{num_ranks} ranks share {cores}: a step takes about {times} times as long as with a core each"


def needed_bytes(page: Preflight) -> int:
    """Host memory that all ranks will take on a CPU: what is planned, and a process for each. Pure."""
    return sum(role.num_ranks * (role.memory.total_bytes + PROCESS_BYTES) for role in page.roles)


def crowding(resolved: Resolved, page: Preflight, screen: Screen) -> tuple[Finding, ...]:
    """Warnings of the memory that so many ranks on this machine's processor need; says how they share the cores.

    Raises ConfigError C115 when the ranks need more memory than there is.
    """
    if not is_on_cpu(resolved.recipe):
        return ()
    note = crowding_note(resolved.num_ranks, usable_cores())
    if note is not None:
        screen.say(note)
    memory = memory_here()
    return () if memory is None else memory_findings(needed_bytes(page), resolved.num_ranks, *memory)


def memory_findings(needed: int, num_ranks: int, total: int, available: int) -> tuple[Finding, ...]:
    """A warning when the ranks need more bytes than are free now; () otherwise. Pure. Raises C115 above the total."""
    if needed <= available:
        return ()
    is_too_much = needed > total
    each = needed / num_ranks
    message = f"{num_ranks} ranks need about {needed / _GIB:.1f} GiB of memory, more than this machine has" + (
        "" if is_too_much else " free"
    )
    expected = f"at most {(total if is_too_much else available) / _GIB:.1f} GiB"
    found = f"{each / _GIB:.2f} GiB a rank, of which {PROCESS_BYTES / _GIB:.2f} for its process"
    advice = "fewer ranks, or a smaller model or batch.micro_batch"
    if is_too_much:
        raise ConfigError(message, code="C115", where="--ranks", expected=expected, found=found, next=advice)
    return (
        Finding(
            code="C115",
            severity=Severity.WARNING,
            kind=require_code("C115").kind,
            cause=Cause.OUT_OF_MEMORY,
            certainty=Certainty.INFERRED,
            message=message,
            site="--ranks",
            evidence=(f"expected {expected}", f"found {found}"),
            next=advice,
        ),
    )


def memory_here() -> tuple[int, int] | None:
    """Memory that processes here may have in all, and what is free of it, in bytes; None where that is not known.

    From ``/proc/meminfo``, and from the limit of the control group (``memory.max``) where there is one.
    """
    try:
        found = dict(_MEMORY.findall(Path("/proc/meminfo").read_text(encoding="utf-8")))
        total, available = (1024 * int(found[key]) for key in ("MemTotal", "MemAvailable"))
    except (OSError, KeyError):
        return None
    group = Path("/sys/fs/cgroup")
    try:
        limit = int((group / "memory.max").read_text())
        used = int((group / "memory.current").read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return total, available
    return min(total, limit), min(available, max(0, limit - used))
