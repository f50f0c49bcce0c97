"""An incident whose verdict does not come: bounded, said with its reason, and nothing of it is left."""

import os
import sys
import time
from pathlib import Path

import psutil

from emberward.testing import Expected, Incident, IncidentRunner, show
from emberward.testing._incident_jobs import _run_program

HANGS = "import subprocess, sys; subprocess.Popen(['setsid', 'sleep', '1000']); print('stuck here', file=sys.stderr)"


def incident(*command: str) -> Incident:
    def replay(theatre: IncidentRunner):
        return _run_program(theatre, command, is_ended=True)

    expected = Expected(codes=("L106",), causes=())
    return Incident(name="stub", what="", source="", story="", seconds=1, expected=expected, replay=replay, twin=replay)


def in_place(place: Path) -> list[list[str]]:
    """The command lines of living processes that stand in the incident's folder."""
    found = []
    for process in psutil.process_iter(["cwd", "cmdline", "status"]):
        if process.info["cwd"] == str(place) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.info["cmdline"])
    return found


def test_a_verdict_that_never_comes_ends_in_bounded_time_with_nothing_left_and_says_so(tmp_path):
    waits: list[tuple[str, float]] = []
    theatre = IncidentRunner(
        folder=tmp_path,
        environment={**os.environ, "PYTHONUNBUFFERED": "1"},
        tell=lambda text: None,
        on_wait=lambda what, passed_s: waits.append((what, passed_s)),
        limit_s=8.0,
    )
    began_s = time.monotonic()
    # What hangs ignores SIGTERM and its worker has a session of its own and holds the pipe of standard error.
    stuck = f"{HANGS}\nimport signal\nsignal.signal(15, signal.SIG_IGN)\nwhile True: signal.pause()"
    showing = show(incident(sys.executable, "-c", stuck), theatre, is_twin=False)
    assert time.monotonic() - began_s < 100.0
    (wrong,) = showing.wrong
    first, *said = wrong.splitlines()
    assert first.startswith("no verdict within 8 s: emberward run and the ")
    assert first.endswith("more: emberward incident run NAME --limit-s 16. It said last:")
    assert said in ([], ["  stuck here"])
    assert {what for what, _ in waits} == {"emberward run"}
    assert in_place(tmp_path) == []


def test_the_look_alike_a_command_that_ends_late_but_in_time_has_its_verdict(tmp_path):
    theatre = IncidentRunner(folder=tmp_path, environment=dict(os.environ), tell=lambda text: None, limit_s=100.0)
    showing = show(incident("sh", "-c", "sleep 1; exit 3"), theatre, is_twin=False)
    assert [finding.code for finding in showing.findings] == ["L106"]
    assert not any("no verdict" in line for line in showing.wrong)
