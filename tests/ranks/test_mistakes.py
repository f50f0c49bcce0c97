"""Mistakes that people make with DDP: `check`, `run`, `report` and `explain` name the same ranks, cause and line.

Each program is run as a person would: under torchrun, with all four commands in the folder of the script.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

SCRIPTS = Path(__file__).parent / "mistakes"
EMBERWARD = (sys.executable, "-m", "emberward")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
VERDICT_LIMIT_S = 240.0
"""How long a job may take on a busy machine until it has ended or an error with a line is written down."""
Wait = Callable[..., None]

TRUTHS: dict[str, tuple[tuple[int, ...], str, str]] = {
    "validation": ((0,), "extra_collective", "    dist.all_reduce(total)"),
    "skipped": ((1,), "extra_collective", "            dist.all_reduce(shown)"),
    "uneven": ((1,), "uneven_data", "    dist.barrier()"),
    "raises": ((1,), "exception", "        loss = torch.nn.functional.cross_entropy(model(x), y)"),
    # Of two ranks nothing tells which shape is right: both wait, and nobody is named.
    "shapes": ((), "shape", "    dist.all_reduce(scores)"),
    "barrier": ((0,), "extra_collective", "            dist.barrier()"),
}
"""Culprits, cause, and the text of the line."""
DECISIONS = {("uneven", "check"): "    for x in data[rank::size]:"}
"""Where `check`, which sees what a rank executed, gives the line that decided it, and an observer of a hang the line at
which the rank is."""
CONDITIONS = {
    "validation": "if rank == 0 and step % 2 == 1",
    "skipped": "if shown > 1.0",
    "barrier": "if rank == 0",
}
HANGS = "uneven"
"""Its processes are explained too, while it hangs, with no recorder in them."""
CORRECTED = "corrected"


@dataclass
class Said:
    """What each command found: its errors and warnings, by the command's name."""

    codes: dict[str, int] = field(default_factory=dict)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    output: str = ""

    def errors(self, command: str) -> list[dict[str, Any]]:
        return [each for each in self.findings[command] if each["severity"] == "error"]


def ask(place: Path, *words: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings of a command that ends by itself."""
    done = subprocess.run(
        (*EMBERWARD, *words, "--json"), cwd=place, capture_output=True, text=True, timeout=VERDICT_LIMIT_S, env=quiet()
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)["findings"]


def quiet() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def start(place: Path, *command: str) -> subprocess.Popen[bytes]:
    out = (place / "output").open("wb")
    with out:
        return subprocess.Popen(command, cwd=place, stdout=out, stderr=out, env=quiet(), start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> int:
    """Asks the command to stop; torchrun and `emberward run` end their ranks."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return process.wait(timeout=VERDICT_LIMIT_S)


def supervised(place: Path, name: str, wait_until: Wait) -> tuple[int, Path]:
    """The exit code of `emberward run`, ended when it has said an error with a line; and the run's folder."""
    process = start(place, *EMBERWARD, "run", "--name", "job", "--", *TORCHRUN, f"{name}.py")
    runs = place / "runs" / "job"

    def is_judged() -> bool:
        found = next(runs.glob("2*/findings.jsonl"), None)
        has_error = found is not None and any(f["severity"] == "error" and f["site"] for f in lines_of(found))
        return has_error or process.poll() is not None

    try:
        wait_until(is_judged, f"the end of {name}.py, or an error", VERDICT_LIMIT_S)
    finally:
        code = end(process)
    folder = next(runs.glob("2*"), None)
    assert folder is not None, f"no run folder, exit {code}: {(place / 'output').read_text(errors='replace')}"
    return code, folder


def explained(place: Path, name: str, wait_until: Wait) -> list[dict[str, Any]]:
    """What `explain PID` says of the shell that started a torchrun which hangs, as soon as it says an error."""
    process = start(place, "bash", "-c", " ".join((*TORCHRUN, f"{name}.py")) + "; true")
    found: list[dict[str, Any]] = []

    def is_named() -> bool:
        found[:] = ask(place, "explain", str(process.pid))[1]
        return any(each["severity"] == "error" for each in found)

    try:
        wait_until(is_named, f"a verdict on {name}.py", VERDICT_LIMIT_S)
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        for each in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait(timeout=VERDICT_LIMIT_S)
    return found


def run_all(place: Path, name: str, wait_until: Wait) -> Said:
    place.mkdir()
    shutil.copy(SCRIPTS / f"{name}.py", place)
    said = Said()
    said.codes["check"], said.findings["check"] = ask(place, "check", "--nproc", "2", f"{name}.py")
    said.codes["run"], folder = supervised(place, name, wait_until)
    said.findings["run"] = lines_of(folder / "findings.jsonl")
    said.codes["explain"], said.findings["explain"] = ask(place, "explain", str(folder))
    said.codes["report"], said.findings["report"] = ask(place, "report", str(folder))
    said.output = (place / "output").read_text(errors="replace")
    if name == HANGS:
        said.findings["explain PID"] = explained(place, name, wait_until)
    return said


@pytest.fixture(scope="module")
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wait_until: Wait
) -> Iterator[dict[str, Future[Said]]]:
    # In the order of the tests, so that none waits for a program of a later one.
    chosen = dict.fromkeys(
        item.callspec.params["name"] for item in request.session.items if "told" in item.fixturenames
    )
    place = tmp_path_factory.mktemp("mistakes")
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run_all, place / name, name, wait_until) for name in chosen}


def concluded(finding: dict[str, Any]) -> tuple[tuple[int, ...], str, str]:
    """Culprits, cause and file:line of a finding."""
    return tuple(finding["culprit_ranks"]), finding["cause"], Path(finding["site"]).name


@pytest.mark.parametrize("name", TRUTHS)
def test_all_commands_name_the_same_ranks_cause_and_line(told: dict[str, Future[Said]], name: str) -> None:
    said = told[name].result()
    ranks, cause, _ = TRUTHS[name]
    lines = (SCRIPTS / f"{name}.py").read_text().splitlines()
    for command in said.findings:
        text = DECISIONS.get((name, command), TRUTHS[name][2])
        number = lines.index(text) + 1
        errors = said.errors(command)
        assert [concluded(each) for each in errors] == [(ranks, cause, f"{name}.py:{number}")], (command, said.output)
        (error,) = errors
        assert any(line.endswith(f"{name}.py:{number} reads: {text.strip()}") for line in error["evidence"]), command
        if name in CONDITIONS:
            assert any(CONDITIONS[name] in line for line in error["evidence"]), command
        assert {*ranks, *error["waiting_ranks"]} == {0, 1} or cause == "exception", command
        assert "resume" not in error["next"]
    assert said.codes["check"] == said.codes["explain"] == said.codes["report"] == 1
    assert len(said.errors("explain")) == 1, "one conclusion is said once"


@pytest.mark.parametrize("name", [CORRECTED])
def test_the_corrected_programs_are_no_alarm(told: dict[str, Future[Said]], name: str) -> None:
    said = told[name].result()
    assert said.codes == dict.fromkeys(("check", "run", "explain", "report"), 0), said.output
    alarms = {command: [f for f in found if f["severity"] != "notice"] for command, found in said.findings.items()}
    assert not any(alarms.values()), alarms
