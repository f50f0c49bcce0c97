"""``emberward run`` around real processes: what it leaves alone, whom it names, what it ends."""

import contextlib
import http.server
import json
import os
import signal
import sys
import threading
from pathlib import Path

import psutil
import pytest
from unit.cli.door import warm_server
from warm import Piped

from emberward.processes import MARKER

JOB = str(Path(__file__).with_name("stub_job.py"))


class Run:
    """The program around a command, in `place`. `end` waits for its end."""

    def __init__(self, place: Path, *words: str, options: tuple[str, ...] = (), is_recorded: bool = False) -> None:
        self.place = place
        quiet = () if is_recorded else ("--no-record",)
        self.process = Piped(
            warm_server(),
            ["emberward", "run", "--name", "job", *quiet, *options, "--", *words],
            module="emberward",
            cwd=place,
            env={"COLUMNS": "200"},
        )

    def end(self, given: str = "") -> tuple[int, str, str]:
        out, err = self.process.communicate(given, timeout=100)
        return self.process.returncode, out, err

    @property
    def folder(self) -> Path:
        (found,) = (self.place / "runs" / "job").glob("2*")
        return found

    def lines(self, name: str) -> list[dict]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def codes(self) -> list[str]:
        return [line["code"] for line in self.lines("findings.jsonl")]

    def num_seen(self) -> int:
        """How many living ranks the supervisor knows of."""
        with contextlib.suppress(OSError, ValueError):
            return json.loads((self.folder / "supervisor.json").read_text())["num_ranks"]
        return 0

    def ranks(self) -> dict[str, int]:
        """Behaviour -> pid of the stub's rank processes that are up."""
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.cmdline()[1:3] == [JOB, "rank"]:
                    found[child.cmdline()[3]] = child.pid
        return found


def job(*words: str) -> tuple[str, ...]:
    return (sys.executable, JOB, *words)


def python(program: str) -> tuple[str, ...]:
    return (sys.executable, "-c", program)


def living(place: Path) -> dict[int, str]:
    """The command lines of living processes that stand in `place` and belong to a supervised command."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == str(place) and MARKER in process.environ():
                found[process.pid] = " ".join(process.cmdline())
    return found


@pytest.fixture
def place(tmp_path):
    yield tmp_path
    left = living(tmp_path)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == {}


# -- what is left alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("print('out')", 0),
        ("import sys; print('out'); sys.exit(3)", 3),
        ("import os; print('out', flush=True); os.kill(os.getpid(), 9)", 137),
    ],
)
def test_output_and_exit_code_are_the_command_s_own(place, program, code):
    run = Run(place, *python(program))
    assert run.end()[:2] == (code, "out\n")
    assert run.codes() == ([] if code == 0 else ["L106"])
    start, end = run.lines("attempts.jsonl")
    assert (start["attempt"], end["exit_code"], end["outcome"]) == (1, code, "done" if code == 0 else "failed")
    assert start["machine"]["cores"] == os.cpu_count()


def test_a_clean_run_adds_nothing_to_either_stream_and_reads_our_input(place):
    program = "import sys; sys.stderr.write('e'); sys.stdout.write(sys.stdin.read())"
    assert Run(place, *python(program), is_recorded=True).end("given") == (0, "given", "e")


def test_what_a_program_logs_of_its_loss_is_its_curve_though_it_ends_at_once(place):
    (place / "torch.py").write_text("")
    (place / "train.py").write_text(
        "import torch\nlog = open('log.csv', 'w')\nlog.write('step,loss,loss_scale\\n')\nfor step in range(9):\n"
        "    log.write(f'{step},{2.5 - step / 10},65536\\n')\nlog.close()\n"
        "print('packet loss: 3.5')\nprint('step', 0, 'loss', 2.5)\n"
    )
    run = Run(place, sys.executable, "train.py", is_recorded=True)
    assert run.end() == (0, "packet loss: 3.5\nstep 0 loss 2.5\n", "")
    assert [(row["step"], row["loss"]) for row in run.lines("logged.jsonl")] == [
        (step, 2.5 - step / 10) for step in range(9)
    ]


@pytest.mark.parametrize("num_fewer", [0, 1])
def test_a_rank_short_of_a_call_is_told_when_the_command_ends_well(place, num_fewer):
    (place / "short.py").write_text(
        "import os\nfrom pathlib import Path\n"
        "from emberward.events import CollectiveOp, Group\n"
        "from emberward.sources.ring import MarkKind, RingWriter, identity_here, ring_name\n"
        "from emberward.sources.ring._format import OP_OF_COLLECTIVE, CallFlag\n"
        "children = [1, 2]\n"
        "rank = next((n for n in children if os.fork() == 0), 0)\n"
        "path = Path(os.environ['EMBERWARD_RING']) / ring_name(rank=rank, pid=os.getpid())\n"
        "writer = RingWriter(path, identity_here(rank=rank, world_size=3, local_rank=rank))\n"
        "group, site = writer.group(Group(ranks=(0, 1, 2), label='world')), writer.site('train.py', 9, 'main')\n"
        f"for step in range(9 - {num_fewer} * (rank == 1)):\n"
        "    call = writer.call(OP_OF_COLLECTIVE[CollectiveOp.ALL_REDUCE], group, 8, 1, site, CallFlag.BLOCKING)\n"
        "    writer.done(call, group)\n"
        "writer.moment(MarkKind.MAIN_EXITED)\n"
        "for _ in children if rank == 0 else ():\n    os.wait()\n"
    )
    run = Run(place, sys.executable, "short.py", is_recorded=True)
    code, _, err = run.end()
    assert (code, run.codes()) == (0, ["H104"] * num_fewer)
    assert ("rank 1 ended after 8 calls of world[0,1,2], 1 call fewer than ranks 0, 2" in err) is bool(num_fewer)
    assert run.lines("attempts.jsonl")[-1]["why"] == "done"


def test_a_failure_without_ranks_is_told_in_four_facts(place):
    err = Run(place, "sh", "-c", "exit 3").end()[2].splitlines()
    assert err[0].split("  ")[0] == "L106 the command failed: exit code 3"
    assert err[1:4] == [
        "  sh -c 'exit 3'",
        "  not       a rank that died first: no rank process was seen to fail",
        "  next      read the command's own output above",
    ]
    assert err[4] == "emberward: L106 the command failed: exit code 3"
    assert err[5].startswith("emberward: more: emberward report /") and Path(err[5].split()[-1]).is_dir()


def test_a_command_that_is_not_there_is_refused(place):
    code, out, err = Run(place, "no-such-program").end()
    assert (code, out, err.splitlines()[0]) == (2, "", "C112 the command cannot be started")


def test_signals_are_passed_on_and_end_the_restarts(place, wait_until):
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('told', flush=True))\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))\n"
        "print('up', flush=True)\n"
        "while True: signal.pause()\n"
    )
    run = Run(place, *python(program), options=("--restarts", "3"))
    assert run.process.stdout.readline() == "up\n"
    run.process.send_signal(signal.SIGUSR1)
    assert run.process.stdout.readline() == "told\n"
    run.process.send_signal(signal.SIGTERM)
    assert run.end()[:2] == (9, "")
    assert [line.get("why") for line in run.lines("attempts.jsonl")] == ["started", "stopped by a signal"]
    assert run.codes() == []


# -- who died, and what is ended ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "how", "cause"), [(signal.SIGKILL, "SIGKILL", "killed"), (signal.SIGSEGV, "SIGSEGV", "segfault")]
)
def test_the_rank_that_died_is_named_though_its_launcher_reaped_it(place, wait_until, number, how, cause):
    run = Run(place, *job("strict", "serve", "serve1", "serve2"), options=("--json",))
    wait_until(lambda: run.num_seen() == 3, "three ranks")
    os.kill(run.ranks()["serve1"], number)
    code, out, _ = run.end()
    (finding,) = json.loads(out)["findings"]
    assert code == 1
    assert (finding["code"], finding["cause"], finding["culprit_ranks"]) == ("L102", cause, [1])
    assert finding["message"] == f"rank 1 died first: killed by {how}"
    ended = [line for line in finding["evidence"] if line.endswith("as a consequence: killed by SIGTERM")]
    assert [line.split()[1] for line in ended] == ["0", "2"]
    assert run.lines("attempts.jsonl")[-1]["cause"] == cause


def test_a_launcher_in_limbo_and_a_deaf_rank_are_ended_by_pid_in_seconds(place, wait_until):
    run = Run(place, *job("limbo", "deaf", "serve"), options=("--grace-s", "1", "--json"))
    wait_until(lambda: run.num_seen() == 2, "two ranks")
    os.kill(run.ranks()["serve"], signal.SIGKILL)
    code, out, _ = run.end()
    (finding,) = json.loads(out)["findings"]
    assert code in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
    assert finding["message"] == "rank 1 died first: killed by SIGKILL"
    assert finding["evidence"][-1] == ("its launcher did not end the job within seconds: SIGTERM, then SIGKILL, by pid")
    assert run.lines("attempts.jsonl")[-1]["hours"] * 3600 < 40


def test_a_launcher_that_starts_the_dead_again_is_left_alone(place, wait_until):
    run = Run(place, *job("renew", "serve", "serve1"), options=("--grace-s", "0.5"))
    wait_until(lambda: run.num_seen() == 2, "two ranks")
    first = run.ranks()["serve1"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: run.ranks().get("serve1", first) != first and run.num_seen() == 2, "a new rank")
    run.process.send_signal(signal.SIGTERM)
    assert run.end()[0] == 128 + signal.SIGTERM
    assert run.codes() == []


def test_a_failure_is_answered_by_restarts_until_they_are_used_or_gain_nothing(place):
    run = Run(place, *python("import os, sys; sys.exit(int(os.environ['EMBERWARD_ATTEMPT']) < 2)"),
              options=("--restarts", "3"))  # fmt: skip
    assert run.end()[0] == 0
    assert [line["outcome"] for line in run.lines("attempts.jsonl") if line["event"] == "end"] == ["failed", "done"]


def test_two_attempts_without_a_step_end_the_restarts(place):
    run = Run(place, "sh", "-c", "exit 4", options=("--restarts", "9"))
    code, _, err = run.end()
    assert code == 4
    assert "not started again: the last two attempts made no step" in err
    assert len(run.lines("attempts.jsonl")) == 4


# -- the kill switch, notifications ------------------------------------------------------------------------------------


def test_the_kill_switch_ends_a_run_and_refuses_the_next(place, wait_until):
    run = Run(place, *python("import signal; print('up', flush=True); signal.pause()"), options=("--restarts", "3"))
    assert run.process.stdout.readline() == "up\n"
    switch = place / "runs" / "job" / "kill-switch"
    switch.touch()
    code, _, err = run.end()
    assert code == 128 + signal.SIGTERM
    assert f"notice L111 stopped by the kill switch {switch}" in err
    assert run.lines("attempts.jsonl")[-1]["why"] == "stopped by the kill switch"
    refused = Run(place, "true").end()
    assert refused[0] == 2
    assert refused[2].splitlines() == [
        "C108 the kill switch is set",
        f"  where     {switch}",
        "  expected  no such file",
        "  found     it exists: a start is refused until it is removed",
        f"  next      rm {switch}",
    ]
    switch.unlink()
    assert Run(place, "true").end()[0] == 0


def test_a_command_is_given_each_finding(place):
    told = place / "told"
    run = Run(place, "sh", "-c", "exit 3", options=("--notify", f"sh -c 'cat > {told}'"))
    assert run.end()[0] == 3
    said = json.loads(told.read_text())
    assert (said["code"], said["attempt"], said["run"]) == ("L106", 1, str(run.folder))


def test_a_webhook_is_given_each_finding_and_its_refusal_is_a_finding(place):
    bodies = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if len(bodies) == 1 else 500)
            self.end_headers()

        def log_message(self, *about):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/"
        first = Run(place, "sh", "-c", "exit 3", options=("--notify", url))
        assert first.end()[0] == 3
        assert first.codes() == ["L106"]
        second = Run(place, "sh", "-c", "exit 3", options=("--notify", url, "--name", "other"))
        assert second.end()[0] == 3
        (folder,) = (place / "runs" / "other").iterdir()
        lines = [json.loads(line) for line in (folder / "findings.jsonl").read_text().splitlines()]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert [body["code"] for body in bodies] == ["L106", "L106"]
    assert [line["code"] for line in lines] == ["L106", "L109"]
    assert lines[1]["message"] == f"a notification failed: {url}: HTTPError: HTTP Error 500: Internal Server Error"
