"""Runs the tests in lanes: kept ranks, jobs that hang or wait, other jobs, rooms of processes, of files, all others.

    python tools/run_tests.py             what a newcomer runs, minutes: `make test`
    python tools/run_tests.py --all       every test but those of --seldom: `make test-all`
    python tools/run_tests.py --rest      what --all has and the first does not: .ci/run, after `make test`
    python tools/run_tests.py --seldom    cases that prove again what others of --all prove: `make campaign`
    python tools/run_tests.py --cluster   tests/cluster alone, which needs SLURM and root: `make test-cluster`
    python tools/run_tests.py --window    tests/window alone, which needs a browser: `make test-window`
    python tools/run_tests.py --times     as the first, and keeps each file's seconds in docs/measured/test_times.json
    python tools/run_tests.py [pytest's arguments]

Tests of jobs start programs with ranks of their own, those of the rooms of processes start others, and both wait a good
part of their time, for a hang to show or a process to end: with fewer lanes a processor would be idle. The lines of all
lanes are shown as they come. With arguments of its own it is pytest alone, once. A lane ends at its tenth failure: what
is broken so widely would cost an hour of time limits, and say the same again.

pytest ends a test after `timeout` of pyproject.toml, where Python still gets to run. A lane of which nothing is heard
for twice as long stands still: the stacks of its process are shown, and it ends.

Up to six tests that failed beside others are run again, alone and twice: many tests wait for real processes, and a
machine that gives them no time looks like a fault. The last lines name each that passed then; such a test has a race,
and is to be mended.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from xml.etree import ElementTree

from measured import Results

from emberward.processes import Child, ProcessTree


def _of_ranks(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/ranks/test_{name}.py" for name in names)


HANGS = _of_ranks(
    *(
        "certificate_run",
        "child",
        "debug_prompt",
        "device_calls",
        "device_times",
        "hangs",
        "held_out",
        "mistakes",
        "node_scripts",
    ),
    *("pairs", "pauses", "readme", "symptoms", "watch_api"),
)
JOBS = _of_ranks(
    *("check", "gpu_tool", "huggingface", "incidents", "launch", "profile", "recorder", "rewind"),
    "run",
)
PROCESSES = tuple(f"tests/unit/{room}" for room in ("cli", "processes", "supervise", "testing"))
FILES = tuple(f"tests/unit/{room}" for room in ("checkpoint", "data", "lens", "recipe", "report"))
"""The lens is among them: it holds times to the clock, so its lane has a processor whenever it wants one."""
IN_MEMORY = frozenset({"files"})
"""Lanes whose temporary files lie in shared memory where that has LEAST_FREE_BYTES: they make and remove thousands."""
SHARED_MEMORY = Path("/dev/shm")
LEAST_FREE_BYTES = 4 << 30
LANES = {
    "ranks": ("tests/ranks", *(f"--ignore={file}" for file in (*HANGS, *JOBS))),
    "hangs": HANGS,
    "jobs": JOBS,
    "processes": PROCESSES,
    "files": FILES,
    "others": ("tests", *(f"--ignore={folder}" for folder in ("tests/ranks", *PROCESSES, *FILES))),
}
PRIORITY = {"others": 4, "processes": 4, "ranks": 8, "hangs": 8, "jobs": 8}
"""nice(1) of lanes. That of the files comes before others of few processes; the many of ranks would leave them none."""
CACHE = Path(".pytest_cache")
CHOICES = {
    "--all": ("-m", "not seldom"),
    "--rest": ("-m", "thorough and not seldom"),
    "--seldom": ("-m", "seldom"),
    "--times": ("-m", "not thorough"),
    "--cluster": (),
    "--window": (),
}
NETWORKS = tuple(f"tests/cluster/test_{name}.py" for name in ("hosts", "namespaces", "shared_late"))
OWN_LANES: dict[str, dict[str, tuple[str, ...]]] = {
    "--cluster": {
        "slurm": ("tests/cluster", *(f"--ignore={file}" for file in NETWORKS)),
        "networks": NETWORKS,
    },
    "--window": {"window": ("tests/window",)},
}
"""Choices that are other lanes than LANES."""
OPTIONS = ("--maxfail=10", "--durations=25", "--durations-min=1", "-q")
FAILED, INTERRUPTED, NO_TESTS = 1, 2, 5
"""Of pytest."""
STILL_S = 600.0
"""After how long without a word a lane is ended."""
GRACE_S = 30.0
MAX_AGAIN = 6
TIMES_AGAIN = 2


def show(lane: str, words: BufferedReader, heard_s: dict[str, float]) -> None:
    """Writes the lines of one lane as they come, each with its lane; notes when it was heard of last."""
    rest = b""
    with words:
        while part := words.read1(1 << 16):
            heard_s[lane] = time.monotonic()
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                sys.stdout.buffer.write(f"{lane:9} | ".encode() + line + b"\n")
            sys.stdout.flush()


def end_if_still(lane: str, process: Child, still_s: float) -> None:
    """Shows where a lane stands of which nothing was heard for too long, and kills it."""
    if still_s > STILL_S and process.poll() is None:
        spy = Path(sys.executable).with_name("py-spy")
        command = [str(spy), "dump", "--nonblocking", "--pid", str(process.pid)]
        stacks = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GRACE_S)
        sys.stdout.write(f"{lane}: nothing was heard of it for {still_s:.0f} s\n{stacks.stdout}{stacks.stderr}\n")
        sys.stdout.flush()
        process.end()


def end(processes: dict[str, Child]) -> None:
    """Interrupts the lanes that still run, as Ctrl-C does, and kills those that stay."""
    for process in processes.values():
        process.send_signal(signal.SIGINT)
    for process in processes.values():
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.end()


@contextmanager
def folder_in_memory() -> Iterator[Path | None]:
    """A folder in shared memory for temporary files, removed at the end; None where that has too little room.

    Nor where it takes no O_DIRECT (Linux before 6.6): tests of saves would not reach what a disk's reach.
    """
    with ExitStack() as stack:
        folder = None
        with suppress(OSError):
            if shutil.disk_usage(SHARED_MEMORY).free >= LEAST_FREE_BYTES:
                made = tempfile.TemporaryDirectory(prefix="tests-", dir=SHARED_MEMORY, ignore_cleanup_errors=True)
                path = Path(stack.enter_context(made))
                os.close(os.open(path / "probe", os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
                folder = path
        yield folder


def run_lanes(lanes: dict[str, tuple[str, ...]], choice: tuple[str, ...], reports: Path) -> int:
    """The exit code of the worst lane; writes a JUnit report of each lane into `reports`."""
    with folder_in_memory() as memory, ProcessTree() as tree:
        codes = wait_for_lanes(tree, lanes, choice, reports, memory)
        if left := tree.processes():
            sys.stdout.write(f"{len(left)} processes of the tests still run and are ended now:\n")
            for process in left:
                sys.stdout.write(f"  {process.pid}: {command_of(process.pid)}\n")
    if FAILED in codes.values():
        codes = run_again(codes)
    sys.stdout.writelines(last_lines(codes))
    return max(0 if code == NO_TESTS else abs(code) for code in codes.values())


def last_lines(codes: dict[str, int]) -> Iterator[str]:
    """Which tests failed in which lane: lanes end at different times, and of long outputs the end is kept."""
    for lane, code in codes.items():
        if code not in (0, NO_TESTS):
            yield f"{lane}: pytest ended with {code}\n"
            yield from (f"FAILED: {test}\n" for test in failed_tests(lane))


def command_of(pid: int) -> str:
    """The command line of a process; empty when it has gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def run_again(codes: dict[str, int]) -> dict[str, int]:
    """The lanes' exit codes after the tests that failed ran again, alone: 0 for a lane where each passed each time.

    By their names and without a choice of marks: what is thorough depends on what else is collected.
    """
    failed = {lane: tests for lane, code in codes.items() if code == FAILED and (tests := failed_tests(lane))}
    if not 0 < sum(map(len, failed.values())) <= MAX_AGAIN:
        return codes
    codes = dict(codes)
    for lane, tests in failed.items():
        sys.stdout.write(f"\n{lane}: what failed runs again, alone, {TIMES_AGAIN} times\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "pytest", "-q", *tests]
        codes[lane] = max(subprocess.run(command, check=False).returncode for _ in range(TIMES_AGAIN))
        if codes[lane] == 0:
            sys.stdout.writelines(f"FAILED BESIDE OTHERS, PASSED ALONE: {test}\n" for test in tests)
    return codes


def failures_of(lane: str) -> Path:
    """Where pytest keeps the names of the tests that failed."""
    return CACHE / lane / "v" / "cache" / "lastfailed"


def failed_tests(lane: str) -> list[str]:
    """The names of a lane's tests that failed, as pytest kept them; empty where it kept none."""
    with suppress(FileNotFoundError):
        return list(json.loads(failures_of(lane).read_text()))
    return []


def wait_for_lanes(
    tree: ProcessTree, lanes: dict[str, tuple[str, ...]], choice: tuple[str, ...], reports: Path, memory: Path | None
) -> dict[str, int]:
    """The lanes' exit codes; their processes belong to `tree`. `memory`: for the temporary files of lanes IN_MEMORY."""
    processes: dict[str, Child] = {}
    readers = []
    heard_s: dict[str, float] = {}
    # Hundreds of processes are started: without files of compiled code each of them would compile the whole program.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONUNBUFFERED": "1"}
    try:
        for lane, files in lanes.items():
            failures_of(lane).unlink(missing_ok=True)
            own = ("-o", f"cache_dir={CACHE / lane}", f"--junit-xml={reports / lane}.xml")
            nice = ("nice", "-n", str(PRIORITY.get(lane, 0)))
            command = [*nice, sys.executable, "-m", "pytest", *OPTIONS, *choice, *own, *files]
            lines, end_of_lines = os.pipe()
            of_lane = (
                {**environment, "TMPDIR": str(memory)} if memory is not None and lane in IN_MEMORY else environment
            )
            process = tree.start(
                command, environment=of_lane, stdout=end_of_lines, stderr=end_of_lines, is_session=False
            )
            os.close(end_of_lines)
            processes[lane], heard_s[lane] = process, time.monotonic()
            readers.append(threading.Thread(target=show, args=(lane, os.fdopen(lines, "rb"), heard_s), daemon=True))
            readers[-1].start()
        while any(process.poll() is None for process in processes.values()):
            if any(process.poll() == INTERRUPTED for process in processes.values()):
                break
            for lane, process in processes.items():
                end_if_still(lane, process, time.monotonic() - heard_s[lane])
            time.sleep(0.2)
    finally:
        end(processes)
        for reader in readers:
            reader.join(GRACE_S)
    return {
        lane: INTERRUPTED if process.returncode is None else process.returncode for lane, process in processes.items()
    }


def keep_times(reports: Path, whole_s: float) -> None:
    """Writes each file's seconds, from the lanes' reports."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports.glob("*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            seconds[case.get("classname", "?")] += float(case.get("time", 0))
    results = Results(
        "test_times",
        what="seconds of each test file in `make test`, all lanes beside each other",
        measures=["tests/sample.py"],
        is_fresh=True,
    )
    for file, taken in sorted(seconds.items()):
        results.add(file, {"seconds": round(taken, 1)})
    results.summarise({"whole_s": round(whole_s)})


def main(arguments: list[str]) -> int:
    """The exit code for a person or a machine: 0 when every test passed."""
    if arguments and arguments[0] not in CHOICES:
        return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    choice = CHOICES[arguments[0]] if arguments else ("-m", "not thorough")
    lanes = OWN_LANES.get(arguments[0], LANES) if arguments else LANES
    with tempfile.TemporaryDirectory() as reports:
        began = time.monotonic()
        code = run_lanes(lanes, choice, Path(reports))
        if arguments == ["--times"] and code == 0:
            keep_times(Path(reports), time.monotonic() - began)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
