"""Incidents of machines: a device that breaks what it joins, and one slow host of many, found by the doctor."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from emberward.findings import Cause
from emberward.testing._incident_jobs import Ended, emberward, facts
from emberward.testing._incidents import Expected, Incident, IncidentRunner, Replayed

PROBE = Path(__file__).with_name("incident_programs") / "sick_device.py"
MAX_TESTS = 5
"""Runs in which GPU 7 must be found; its finder took as many after the others had left their cards."""


def _doctor(theatre: IncidentRunner, fault: str, sick: str, *words: str) -> Ended:
    command = shlex.join((sys.executable, "-S", str(PROBE), str(theatre.folder), fault, sick))
    return emberward(theatre, "doctor", "--launcher", "local", "--probe-only", "--probe", f"step={command}", *words)


def _replay(
    fault: str, sick: str, words: tuple[str, ...], max_tests: int | None
) -> Callable[[IncidentRunner], Replayed]:
    def replay(theatre: IncidentRunner) -> Replayed:
        ended = _doctor(theatre, fault, sick, *words)
        named = [device for verdict in ended.document.get("verdicts", ()) for device in verdict["devices"]]
        tests = len(ended.document.get("tests", ()))
        is_sick = fault != "none"
        return Replayed(
            findings=ended.findings,
            broken_facts=facts(
                (ended.code == int(is_sick), f"doctor ended with code {ended.code}"),
                (named == ([sick] if is_sick else []), f"it named {named}"),
                (max_tests is None or tests <= max_tests, f"it took {tests} tests"),
            ),
        )

    return replay


_BOX = ("--hosts", "gpubox", "--devices-per-host", "8", "--budget", "60")
_HOSTS = ("--hosts", "iam[01-16]", "--devices-per-host", "1", "--budget", "90")

GPU_7 = Incident(
    name="gpu7",
    what="a GPU that is fine alone ends every job that it joins",
    source="a broken GPU of eight",
    story=(
        "Cards 0 to 5 are in use; a job on 6 and 7 dies of a segmentation fault, and each of the two works alone. "
        "Days went by over the program, the framework and the system's libraries. Once the others were free, 5 and 6 "
        "worked, 5 and 7 failed, 0 to 6 worked: card 7 could not talk."
    ),
    seconds=20,
    expected=Expected(codes=("E101",), causes=(Cause.SEGFAULT,)),
    replay=_replay("breaks", "gpubox:7", _BOX, MAX_TESTS),
    twin=_replay("none", "gpubox:7", ("--hosts", "gpubox", "--devices-per-host", "8", "--budget", "8"), None),
)
"""The twin is the box with its card replaced."""

ELIMINATION_GAME = Incident(
    name="elimination-game",
    what="one slow host takes 5% of every step, and nobody knows which",
    source="BLOOM-176B, iteration 42780",
    story=(
        "Throughput fell from 149 to 140 TFLOPs in mid-run. The network was even on all hosts. With three spare nodes "
        "the hosts were excluded three at a time over a weekend, one restart each, then by halves. "
        "Here 16 hosts are measured beside each other."
    ),
    seconds=60,
    expected=Expected(codes=("E101",), causes=(Cause.SLOW_RANK,)),
    replay=_replay("slow", "iam07:0", _HOSTS, None),
    twin=_replay("none", "iam07:0", ("--hosts", "iam[01-16]", "--devices-per-host", "1", "--budget", "15"), None),
)
"""The twin has no slow host."""
