"""The probes that Emberward brings, and what it asks a machine before."""

import json
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emberward.doctor._fleet import Links, Talk
from emberward.doctor._probe import Probe, last_words
from emberward.doctor._runner import SSH, Launcher
from emberward.findings import Cause, Certainty, Finding, Kind, Severity
from emberward.processes import ProcessTree

COUNT_LIMIT_S = 60.0
REACH_LIMIT_S = 20.0
CPU_DEVICES = 2
"""Without a GPU two members share the processor: enough to test what lies between them."""
DRIVER = Path("/dev/nvidiactl")
"""The device file of NVIDIA's kernel driver."""
_MODULE = "emberward.doctor.probe"


def builtin_probes(kind: str) -> tuple[Probe, ...]:
    """Our probes for devices of `kind` ("cpu" or "cuda"), the quickest first."""

    def probe(name: str, talk: Talk, links: Links | None = None) -> Probe:
        command = (sys.executable, "-m", _MODULE, name, kind)
        return Probe(name=name, command=command, talk=talk, links=links, is_builtin=True)

    return (
        probe("host", Talk.ALONE, Links.NONE),
        probe("compute", Talk.ALONE, Links.NONE),
        probe("memory", Talk.ALONE, Links.NONE),
        probe("transfer", Talk.TOGETHER, Links.ALL),
        probe("collective", Talk.TOGETHER, Links.RING),
        probe("soak", Talk.ANY, Links.RING),
    )


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


def unreached(
    hosts: Sequence[str], launcher: Launcher, *, tree: ProcessTree, environment: Mapping[str, str]
) -> list[Finding]:
    """E107 for each host on which nothing can be started. Blocks, at most REACH_LIMIT_S."""

    def ask(host: str) -> Finding | None:
        command: tuple[str, ...] = (*SSH, host, "true")
        if launcher is Launcher.SLURM:
            command = ("srun", "--overlap", "--quiet", "--nodes=1", "--ntasks=1", f"--nodelist={host}", "true")
        done = tree.run(command, environment=environment, timeout_s=REACH_LIMIT_S)
        if done.code == 0:
            return None
        said = last_words(done.errors) or ("no answer" if done.code is None else f"exit code {done.code}")
        return Finding(
            code="E107",
            severity=Severity.ERROR,
            kind=Kind.LINK,
            cause=Cause.HOST_DOWN,
            certainty=Certainty.OBSERVED,
            message=f"nothing can be started on host {host}, which is left out",
            hosts=(host,),
            evidence=(said,),
            next=f"{' '.join(command)}",
        )

    if not hosts:
        return []
    with ThreadPoolExecutor(max_workers=min(len(hosts), 64)) as pool:
        return [finding for finding in pool.map(ask, hosts) if finding is not None]
