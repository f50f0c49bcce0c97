"""This host: what of it may change how a run behaves, and findings on what was seen here."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from emberward.findings import Finding, observed


def host_fingerprint() -> dict[str, object]:
    """What of this machine may change a run's behaviour: name, kernel, processor, cores, memory, first boot."""
    system = os.uname()
    model = memory = boot = None
    with suppress(OSError):
        rows = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
        model = next((row.partition(":")[2].strip() for row in rows if row.startswith("model name")), None)
    with suppress(OSError, ValueError):
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return {
        "host": socket.gethostname(),
        "kernel": system.release,
        "machine": system.machine,
        "processor": model,
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "boot": boot,
    }


def seen_here(code: str, message: str, **others: Any) -> Finding:
    """What the supervisor of this host saw; `others` of `observed`."""
    return observed(code, message, hosts=(socket.gethostname(),), **others)
