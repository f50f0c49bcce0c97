"""What of a machine may change how a run behaves."""

import os
import socket
from pathlib import Path


def host_fingerprint() -> dict[str, object]:
    """What of this machine may change a run's behaviour: name, kernel, processor, cores, memory, first boot."""
    system = os.uname()
    model = None
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
        model = next(
            (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")), None
        )
    except OSError:
        pass
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        memory = None
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = None
    return {
        "host": socket.gethostname(),
        "kernel": system.release,
        "machine": system.machine,
        "processor": model,
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "boot": boot,
    }
