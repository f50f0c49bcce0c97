"""Incidents of processes that are there and do nothing: one whose interpreter is held, all of one host."""

import contextlib
import signal
import sys
from collections.abc import Callable

import psutil

from emberward.findings import Cause, Finding, Severity
from emberward.report import RunFolder, read_lines
from emberward.testing._incident_jobs import (
    INCIDENT_PROGRAMS,
    emberward,
    facts,
    only_run,
    train_words,
    when_at_step,
)
from emberward.testing._incidents import Expected, Incident, IncidentRunner, Replayed

FROZEN = "b"


def _gil_holder(*victim: str) -> Callable[[IncidentRunner], Replayed]:
    """The program under ``emberward run``: the last that was said of a rank that others wait for, in the twin all."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3")

    def replay(theatre: IncidentRunner) -> Replayed:
        ended = emberward(theatre, "run", "--", *launch, str(INCIDENT_PROGRAMS / "gil_holder.py"), *victim)
        newest = max((theatre.folder / "runs" / "gil_holder").iterdir())
        lines = read_lines(newest / "findings.jsonl")
        found = [Finding.from_json(line) for line in lines if line.get("code") == "H101"]
        return Replayed(
            findings=tuple(found[-1:] if victim else found),
            broken_facts=facts((ended.code == 0, f"the job ended with code {ended.code}")),
        )

    return replay


GIL_HOLDER = Incident(
    name="gil-holder",
    what="a native call of one rank waits and keeps the interpreter's lock",
    source="extensions that wait without releasing the GIL",
    story=(
        "A native call waits for 20 seconds and keeps the interpreter's lock: no thread of that process runs Python, "
        "its watchdog neither, and no log tells anything. The recorder's own thread is silent while the main thread "
        "sits in a system call: that, the rank and the line are told. The job goes on by itself, so nothing is ended."
    ),
    seconds=75,
    expected=Expected(
        codes=("H101",),
        causes=(Cause.LOCK,),
        culprit_ranks=(1,),
        site="gil_holder.py",
        severity=Severity.NOTICE,
    ),
    replay=_gil_holder("1"),
    twin=_gil_holder(),
)


def _freeze(_: RunFolder) -> None:
    """Stops every process that stands for the second host."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if process.environ().get("EMBERWARD_HOST") == FROZEN or f"--host {FROZEN} " in " ".join(words):
                process.send_signal(signal.SIGSTOP)


def _frozen_host(*, is_frozen: bool) -> Callable[[IncidentRunner], Replayed]:
    name = "frozen" if is_frozen else "awake"
    hosts = ("--hosts", f"a=127.0.0.1,{FROZEN}=127.0.0.1", "--launcher", "local", "--nproc-per-node", "1")
    layout = ("layout.dp=2", "layout.pp=1", "steps=300")

    def replay(theatre: IncidentRunner) -> Replayed:
        words = train_words(theatre, name, *layout, *hosts, "--min-hosts", "1", "--restarts", "1", "--grace-s", "2")
        meddle = when_at_step(theatre, name, 50, _freeze) if is_frozen else None
        ended = emberward(theatre, *words, meddle=meddle)
        folder = only_run(theatre, name)
        found = [Finding.from_json(line) for line in read_lines(folder.findings)]
        steps = {line["step"] for line in read_lines(folder.metrics) if "step" in line}
        # That a call ends on nobody is true meanwhile, and over once the host is left out.
        down = [finding for finding in found if finding.code == "L113"]
        is_named = all(finding.hosts == (FROZEN,) for finding in down)
        return Replayed(
            findings=tuple(down[:1] if is_frozen else found),
            broken_facts=facts(
                (ended.code == 0, f"the run ended with code {ended.code}"),
                (is_named, "another host than the one that stands still is named"),
                (steps == set(range(1, 301)), "not every step was done"),
            ),
        )

    return replay


FROZEN_HOST = Incident(
    name="frozen-host",
    what="all processes of one host stand still, and its connections stay open",
    source="hosts that swap, hang in their kernel or are suspended",
    story=(
        "Nothing is closed, so no peer sees an error. Here every process of the second of two hosts is stopped at step "
        "50. It says nothing any more, and nobody reaches it: it is left out, and the run goes on from the last save "
        "with the host that is left."
    ),
    seconds=110,
    expected=Expected(codes=("L113",), causes=(Cause.HOST_DOWN,), culprit_ranks=(1,)),
    replay=_frozen_host(is_frozen=True),
    twin=_frozen_host(is_frozen=False),
)
