"""The probes that Emberward brings, and how it counts a machine's devices."""

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from emberward.doctor._fleet import Links, Talk
from emberward.doctor._load import Load
from emberward.doctor._probe import Probe
from emberward.processes import ProcessTree

COUNT_LIMIT_S = 60.0
CPU_DEVICES = 2
"""Without a GPU two members share the processor: enough to test what lies between them."""
DRIVER = Path("/dev/nvidiactl")
"""The device file of NVIDIA's kernel driver."""
_MODULE = "emberward.doctor.probe"


SITE_PROGRAMS = {
    "dcgmi": ("dcgm", (Talk.ALONE, Links.NONE)),
    "all_reduce_perf": ("nccl-tests", (Talk.TOGETHER, Links.RING)),
}
"""Programs of NVIDIA's that are used where they are on PATH: the probe that runs each, and on which sets."""


def builtin_probes(kind: str, *, programs: Collection[str] = (), load: Load | None = None) -> tuple[Probe, ...]:
    """Our probes for devices of `kind` ("cpu" or "cuda"), the quickest first.

    `programs`: of SITE_PROGRAMS, those that are there; on CUDA their probes come along. `load`: what the soak
    repeats.
    """

    def probe(name: str, talk: Talk, links: Links, *more: str) -> Probe:
        command = (sys.executable, "-m", _MODULE, name, kind, *more)
        return Probe(name=name, command=command, talk=talk, links=links, is_builtin=True)

    return (
        probe("host", Talk.ALONE, Links.NONE),
        probe("compute", Talk.ALONE, Links.NONE),
        probe("memory", Talk.ALONE, Links.NONE),
        probe("transfer", Talk.TOGETHER, Links.ALL),
        probe("collective", Talk.TOGETHER, Links.RING),
        probe("soak", Talk.ANY, Links.RING, *(() if load is None else (load.word(),))),
        *(
            probe(name, *how)
            for program, (name, how) in SITE_PROGRAMS.items()
            if kind == "cuda" and program in programs
        ),
    )


SCREEN = ("host", "soak")
"""The probes of a quick screen: the host's own parts, then compute, memory and transport at once, as a job has them."""


def count_devices(*, tree: ProcessTree, environment: Mapping[str, str]) -> tuple[str, int]:
    """("cuda", GPUs of this machine), or ("cpu", CPU_DEVICES). Asks torch in a child process where there is a driver.

    Blocks, at most COUNT_LIMIT_S.
    """
    if not DRIVER.exists():
        return "cpu", CPU_DEVICES
    done = tree.run((sys.executable, "-m", _MODULE, "count"), environment=environment, timeout_s=COUNT_LIMIT_S)
    try:
        answer = json.loads(done.out)
        return str(answer["kind"]), max(int(answer["count"]), 1)
    except (ValueError, KeyError, TypeError):
        return "cpu", CPU_DEVICES
