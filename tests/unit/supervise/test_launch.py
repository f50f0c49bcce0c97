"""Real processes: a launcher, and small scripts that stand for the agent and its ranks."""

import json
import os
import signal
import sys
from datetime import datetime
from pathlib import Path

import psutil
import pytest
from unit.cli.door import warm_server
from warm import Piped

HERE = Path(__file__).parent
LIMIT_S = 240.0
"""How long the start or end of a launcher may take on a busy machine."""


class Launch:
    """A launcher in a child process. `result` waits for its end."""

    def __init__(self, folder: Path, *behaviours: str, grace_s: float = 30.0, config: str = "c1") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        # A session of its own: what a signal does to the launcher must not come from the terminal's group.
        self.process = Piped(
            warm_server(),
            [str(HERE / "launcher_child.py"), str(folder), str(grace_s), *behaviours],
            module=None,
            cwd=Path.cwd(),
            env={"TEST_CONFIG": config},
        )

    def result(self) -> tuple[int, dict]:
        out, _ = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, json.loads(out)

    def ranks(self) -> list[int]:
        """The pids of the ranks that know their coordinates."""
        said = [json.loads(path.read_text()) for path in sorted((self.folder / "ranks").glob("rank*.json"))]
        return [each["pid"] for each in said if each["coordinates"] is not None]

    def num_known(self) -> int:
        """How many ranks the launcher knows of, and has named to its guardian."""
        path = self.folder / "supervisor.json"
        return json.loads(path.read_text())["num_ranks"] if path.exists() else 0

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def using(folder: Path) -> list[list[str]]:
    """The command lines of living processes that name the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and str(folder) in words:
            found.append(words)
    return found


def diary(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "attempts.jsonl").read_text().splitlines()]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "run" / "7"
    yield path
    assert using(path) == []


def test_a_clean_end(folder):
    code, said = Launch(folder, "done", "done").result()
    assert (code, said["outcome"], said["findings"], said["death"]) == (0, "done", [], None)
    start, end = diary(folder)
    assert {key: start[key] for key in ("event", "attempt", "why", "num_ranks", "config", "changed", "saved_step")} == {
        "event": "start", "attempt": 1, "why": "a test", "num_ranks": 2, "config": "c1", "changed": [],
        "saved_step": None,
    }  # fmt: skip
    assert start["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (end["event"], end["attempt"], end["outcome"], end["why"]) == ("end", 1, "done", "done")
    assert end["hours_lost"] == 0
    assert 0 < end["hours"] * 3600 < 60
    assert (folder / "launch.lock").read_text() == ""


def test_the_first_dead_ranks_traceback_is_last_and_the_others_are_folded(folder):
    code, said = Launch(folder, "echo", "raise", "echo").result()
    assert (code, said["outcome"]) == (1, "failed")
    lines = said["death"].splitlines()
    assert lines[0].startswith("ranks 0, 2: RuntimeError: [gloo/transport")
    assert lines[1] == "╭─ L102 rank 1 died first: ValueError: a batch is not as it should be"
    assert lines[2].startswith("│ host n1   pid ")
    assert lines[2].endswith("   pp1   exit code 1")
    assert lines[-2] == "│ ValueError: a batch is not as it should be"
    (finding,) = said["findings"]
    assert (finding["code"], finding["culprit_ranks"], finding["cause"]) == ("L102", [1], "exception")
    line = json.loads((folder / "findings.jsonl").read_text())
    assert {key: value for key, value in line.items() if key not in ("attempt", "seen")} == finding
    assert line["attempt"] == 1
    end = diary(folder)[-1]
    assert end["why"] == finding["message"]
    assert end["hours_lost"] == pytest.approx(end["hours"], rel=0.05)


@pytest.mark.parametrize(("how", "cause"), [(signal.SIGKILL, "killed"), (signal.SIGSEGV, "segfault")])
def test_a_killed_rank_ends_the_attempt_in_seconds_and_is_named(folder, wait_until, how, cause):
    launch = Launch(folder, "echo", "serve", "echo")
    wait_until(lambda: len(launch.ranks()) == 3, "three ranks")
    os.kill(launch.ranks()[1], how)
    code, said = launch.result()
    assert (code, said["outcome"]) == (1, "failed")
    assert said["findings"][0]["message"] == f"rank 1 died first: killed by {how.name}"
    assert said["findings"][0]["cause"] == cause
    assert "│   rank 1 is up" in said["death"]
    assert said["seconds"] < 10


def test_a_real_segfault_is_named(folder):
    code, said = Launch(folder, "echo", "segfault").result()
    assert code == 1
    assert said["findings"][0]["message"] == "rank 1 died first: killed by SIGSEGV"


@pytest.mark.parametrize(
    ("number", "exit_code", "why"),
    [(signal.SIGTERM, 75, "terminate"), (signal.SIGINT, 130, "interrupt"), (signal.SIGHUP, 75, "terminate")],
)
def test_a_stop_is_told_to_the_ranks_and_has_its_exit_code(folder, wait_until, number, exit_code, why):
    launch = Launch(folder, "serve", "serve")
    wait_until(lambda: len(launch.ranks()) == 2, "two ranks")
    launch.send(number)
    code, said = launch.result()
    assert (code, said["outcome"], said["findings"]) == (exit_code, "stopped", [])
    end = diary(folder)[-1]
    assert (end["why"], end["hours_lost"]) == (f"stopped by {why}", 0)


def test_a_stop_told_to_the_ranks_by_somebody_else_is_said(folder, wait_until):
    launch = Launch(folder, "serve")
    wait_until(lambda: len(launch.ranks()) == 1, "a rank")
    os.kill(launch.ranks()[0], signal.SIGTERM)
    code, said = launch.result()
    assert (code, said["outcome"]) == (75, "stopped")
    assert diary(folder)[-1]["why"] == "stopped by a signal to a rank"


def test_a_stop_before_any_rank_is_up_ends_at_once(folder, wait_until):
    launch = Launch(folder, "unborn", "unborn")
    wait_until(lambda: len(list((folder / "logs").glob("rank*.log"))) == 2, "two processes")
    launch.send(signal.SIGINT)
    code, said = launch.result()
    assert (code, said["outcome"], said["findings"]) == (130, "stopped", [])


def test_a_second_interrupt_kills(folder, wait_until):
    launch = Launch(folder, "deaf", "deaf")
    wait_until(lambda: len(launch.ranks()) == 2, "two ranks")
    launch.send(signal.SIGINT)
    # Two equal signals that are pending at once are one.
    wait_until(lambda: len(list((folder / "logs").glob("told*"))) == 2, "the ranks, which are told and go on")
    assert len(using(folder)) == 3, "the agent and two ranks"
    launch.send(signal.SIGINT)
    code, said = launch.result()
    assert (code, said["outcome"]) == (1, "killed")
    (finding,) = said["findings"]
    assert (finding["code"], finding["kind"], finding["evidence"]) == ("L104", "hang", ["second Ctrl-C"])
    assert finding["message"] == "ranks did not stop in time and were killed; no save exists"


def test_the_grace_is_bounded(folder, wait_until):
    (folder / "checkpoints" / "step-00000040").mkdir(parents=True)
    launch = Launch(folder, "serve", "deaf", grace_s=0.5)
    wait_until(lambda: len(launch.ranks()) == 2, "two ranks")
    launch.send(signal.SIGTERM)
    code, said = launch.result()
    assert (code, said["outcome"]) == (1, "killed")
    assert said["findings"][0]["message"].endswith("the last save is of step 40")


def test_grandchildren_end_with_the_attempt(folder):
    code, said = Launch(folder, "parent").result()
    assert (code, said["num_ended"]) == (0, 1)
    assert diary(folder)[-1]["num_ended"] == 1


def test_ranks_of_a_dead_agent_end_and_the_agent_is_named_not_they(folder, wait_until):
    launch = Launch(folder, "serve", "serve")
    wait_until(lambda: len(launch.ranks()) == 2, "two ranks")
    os.kill(psutil.Process(launch.ranks()[0]).ppid(), signal.SIGKILL)
    code, said = launch.result()
    assert (code, said["outcome"], said["num_ended"]) == (1, "failed", 2)
    (finding,) = said["findings"]
    assert (finding["code"], finding["culprit_ranks"]) == ("L105", [])
    assert "its agent was killed by signal 9" in finding["message"]


def test_an_end_without_a_summary_is_not_believed(folder):
    code, said = Launch(folder, "mute", "mute").result()
    assert (code, said["outcome"], said["findings"][0]["code"]) == (1, "failed", "L105")
    message = "the launch ended without a result: no rank failed and none wrote a summary"
    assert said["findings"][0]["message"] == message


def test_a_summary_of_an_earlier_attempt_is_not_believed(folder):
    assert Launch(folder, "done").result()[0] == 0
    assert Launch(folder, "mute").result()[0] == 1


def test_one_launcher_for_one_folder(folder, wait_until):
    first = Launch(folder, "serve")
    wait_until(lambda: len(first.ranks()) == 1, "a rank")
    code, said = Launch(folder, "done").result()
    assert (code, said["code"]) == (2, "C111")
    assert f"the launcher with pid {first.process.pid} on " in said["text"]
    assert len(diary(folder)) == 1
    first.send(signal.SIGTERM)
    assert first.result()[0] == 75


def test_ranks_of_a_launcher_that_was_killed_are_asked_to_save_and_leave_nothing(folder, wait_until):
    launch = Launch(folder, "serve", "serve")
    wait_until(lambda: len(launch.ranks()) == 2 and launch.num_known() == 2, "two ranks")
    launch.send(signal.SIGKILL)
    launch.process.communicate(timeout=LIMIT_S)
    wait_until(lambda: using(folder) == [], "the ranks to end")
    assert json.loads((folder / "summary.json").read_text()) == {"outcome": "stopped"}


def test_a_rank_of_a_killed_launcher_that_does_not_save_in_time_is_killed(folder, wait_until):
    launch = Launch(folder, "deaf", grace_s=0.5)
    wait_until(lambda: len(launch.ranks()) == 1, "a rank")
    launch.send(signal.SIGKILL)
    launch.process.communicate(timeout=LIMIT_S)
    wait_until(lambda: using(folder) == [], "the rank to end")
    assert not (folder / "summary.json").exists()


def test_while_ranks_of_a_killed_launcher_save_no_other_starts_and_its_end_is_written_later(folder, wait_until):
    first = Launch(folder, "deaf", grace_s=200.0)
    wait_until(lambda: len(first.ranks()) == 1 and first.num_known() == 1, "a rank")
    (rank,) = first.ranks()
    first.send(signal.SIGKILL)
    first.process.communicate(timeout=LIMIT_S)
    (folder / "checkpoints" / "step-00000003").mkdir(parents=True)
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.writelines(f'{{"step": {step}}}\n' for step in (3, 4))
    began = datetime.fromisoformat(diary(folder)[0]["start"]).timestamp()
    os.utime(folder / "checkpoints" / "step-00000003", (began + 3600, began + 3600))
    os.utime(folder / "metrics.jsonl", (began + 5400, began + 5400))
    code, said = Launch(folder, "done").result()
    assert (code, said["code"]) == (2, "C111")
    assert "its launcher died, and its ranks, which were asked to save, still run" in said["text"]
    assert f"kill -KILL {rank} " in said["text"]
    os.kill(rank, signal.SIGKILL)
    wait_until(lambda: using(folder) == [], "the ranks to end")
    code, said = Launch(folder, "done").result()
    assert (code, said["attempt"]) == (0, 2)
    lines = diary(folder)
    assert [(line["event"], line["attempt"]) for line in lines] == [("start", 1), ("end", 1), ("start", 2), ("end", 2)]
    assert lines[1]["why"] == "the launcher died before it could write this line"
    told = {key: lines[1][key] for key in ("outcome", "last_step", "saved_step", "hours", "hours_lost")}
    assert told == {"outcome": None, "last_step": 4, "saved_step": 3, "hours": 1.5, "hours_lost": 0.5}


def test_the_diary_says_what_changed_since_the_last_good_attempt(folder):
    assert Launch(folder, "done").result()[0] == 0
    assert Launch(folder, "raise", config="c2").result()[0] == 1
    assert Launch(folder, "done", "done", config="c3").result()[0] == 0
    starts = [line for line in diary(folder) if line["event"] == "start"]
    changed = [[], ["the configuration, c1 -> c2"], ["the configuration, c1 -> c3", "num_ranks 1 -> 2"]]
    assert [start["changed"] for start in starts] == changed


def test_work_since_the_last_save_is_what_a_death_costs(folder, wait_until):
    launch = Launch(folder, "serve")
    wait_until(lambda: len(launch.ranks()) == 1, "a rank")
    (folder / "checkpoints" / "step-00000010").mkdir(parents=True)
    os.kill(launch.ranks()[0], signal.SIGKILL)
    assert launch.result()[0] == 1
    start, end = diary(folder)
    assert end["saved_step"] == 10
    assert 0 <= end["hours_lost"] < end["hours"]
    assert start["saved_step"] is None
