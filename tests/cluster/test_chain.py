"""A night of a chain of jobs under a real SLURM, each with a supervisor on every node.

A hang that is named, a second chain on the same runs, the time limit, a job that makes room for another, a rank that is
killed while the controller is away, a node that goes down, the end. There is no accounting all the time.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ranks.runs import curve, metrics

from cluster.jobs import only_run, runs_of, torchrun, write_recipe
from cluster.slurm import Cluster

LIMIT_S = 180.0
STEPS = 80


@pytest.fixture
def cluster():
    """Three nodes, of which SLURM misses one after 10 s."""
    cluster = Cluster(num_nodes=3, slurmd_timeout_s=10)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
    assert not cluster.processes()


class Person:
    """Types commands in the recipe's folder."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder

    def slurm(self, *words: str, code: int = 0) -> dict:
        """The document of ``emberward slurm``; fails at another exit code."""
        command = (sys.executable, "-m", "emberward", "slurm", *words, "--runs", str(self._folder / "runs"), "--json")
        done = self._cluster.run(*command, limit_s=LIMIT_S)
        lines = done.stdout.splitlines()
        assert done.returncode == code, done.stdout
        return next(json.loads(line) for line in lines if line.startswith("{"))


def tasks_of(cluster: Cluster, array: int) -> list[dict[str, str]]:
    """What ``scontrol show job`` says of each task of the array that SLURM remembers, by field."""
    lines = cluster.run("scontrol", "--oneliner", "show", "job", str(array)).stdout.splitlines()
    return [dict(part.partition("=")[::2] for part in line.split() if "=" in part) for line in lines]


def num_restarts(cluster: Cluster, array: int) -> int:
    return sum(int(task.get("Restarts", "0")) for task in tasks_of(cluster, array))


def excluded(cluster: Cluster, array: int) -> set[str]:
    """What the tasks that wait exclude, each the same."""
    return {task["ExcNodeList"] for task in tasks_of(cluster, array) if task["JobState"] == "PENDING"}


@pytest.mark.timeout(900)
def test_a_chain_of_jobs_survives_a_night(cluster, text, tmp_path, wait_until):
    def wait(condition: Callable[[], object], what: str) -> None:
        try:
            wait_until(condition, what, LIMIT_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{cluster.state()}\n--- the first job\n{said()}\n{cluster.logs()}") from None

    recipe = write_recipe(tmp_path, text, STEPS)
    person = Person(cluster, tmp_path)
    assert torchrun(cluster, write_recipe(tmp_path / "straight", text, STEPS)).wait() == 0
    straight = curve(only_run(tmp_path / "straight" / "recipe.yaml"))

    submitted = person.slurm(
        "submit", str(recipe), "--nodes", "2", "--time", "30", "--chain", "3", "--signal-s", "120", "--act-after", "300"
    )
    array = submitted["job"]
    log = tmp_path / "runs" / "cluster" / "slurm" / f"cluster-{array}_1.log"

    def said() -> str:
        return log.read_text(errors="replace") if log.exists() else "no log yet"

    def num_steps() -> int:
        runs = runs_of(recipe)
        return len(metrics(runs[-1])) if runs else 0

    def found() -> list[dict]:
        path = only_run(recipe) / "findings.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def ends() -> list[dict]:
        lines = map(json.loads, (only_run(recipe) / "attempts.jsonl").read_text().splitlines())
        return [line for line in lines if line["event"] == "end"]

    def hold(*ranks: int) -> None:
        """The ranks stand still until `let_go`: however fast they are, they do not end before what is to come."""
        for rank in ranks:
            os.kill(pids()[rank], signal.SIGSTOP)

    def let_go_when_asked() -> None:
        wait((only_run(recipe) / "stop-asked").exists, "the launcher to ask for a save")
        for pid in pids():
            os.kill(pid, signal.SIGCONT)

    def pids() -> list[int]:
        return [json.loads(path.read_text())["pid"] for path in sorted((only_run(recipe) / "ranks").glob("rank*.json"))]

    def running() -> dict | None:
        (chain,) = person.slurm("status")["chains"]
        first = chain["jobs"][0] if chain["jobs"] else {}
        return first if first.get("state") == "RUNNING" else None

    wait(lambda: num_steps() >= 4, "step 4")
    hold(1)
    wait(lambda: any(each["code"] == "H125" for each in found()), "the hang named")
    hang = next(each for each in found() if each["code"] == "H125")
    assert (hang["cause"], hang["culprit_ranks"]) == ("stopped", [1])
    assert hang["site"], "the line that it stands at"
    again = person.slurm("submit", str(recipe), "--nodes", "1", "--ranks-per-node", "2", "--time", "30")["job"]
    wait(lambda: cluster.job(again)["JobState"] in ("COMPLETED", "FAILED"), "the second job on the same runs")
    refused = (log.parent / f"cluster-{again}.log").read_text(errors="replace")
    assert "C111 another launch uses this run folder" in refused
    assert "of SLURM's job " in refused
    first = running()
    assert first is not None, said()
    assert first["id"] == f"{array}_1"
    (line,) = person.slurm("pulse", "--once")["lines"]
    assert "PULSE: cluster is running for " in line
    assert f"({array}_1 on 'main' partition (127.0.0.[2-3])); next {array}_[2-3%1] on 'main' is waiting" in line
    # SLURM counts in minutes, and asks up to one early: the signal is due within 40 s, and 60 s are left for the save.
    minutes = int(first["used_s"] + 100) // 60 + 1
    cluster.run("scontrol", "update", f"JobId={array}_1", f"TimeLimit={minutes}")
    let_go_when_asked()
    wait(lambda: num_restarts(cluster, array) == 1, "the requeue at the time limit")
    assert (ends()[-1]["outcome"], ends()[-1]["saved_step"]) == ("stopped", num_steps())

    saved = num_steps()
    wait(lambda: num_steps() > saved, "a step after the requeue")
    hold(0, 1)
    other = cluster.submit("true", "--partition=high", "--nodes=3", log=tmp_path / "other.log")
    let_go_when_asked()
    wait(lambda: cluster.job(other)["JobState"] == "COMPLETED", "the job that was made room for")
    wait(lambda: num_restarts(cluster, array) == 2, "the requeue after it")
    assert [end["outcome"] for end in ends()] == ["stopped", "stopped"], said()

    saved = num_steps()
    wait(lambda: num_steps() > saved, "a step after the other job")
    cluster.kill_controller()
    os.kill(pids()[1], signal.SIGKILL)
    (away,) = person.slurm("pulse", "--once", code=2)["findings"]
    assert (away["code"], "Unable to contact slurm controller" in str(away)) == ("L120", True), away
    assert "accounting storage is disabled" in cluster.run("sacct").stdout, "nothing is asked of it all night"
    cluster.start_controller()
    wait(lambda: len(ends()) == 3, "the end of the attempt with the killed rank")
    assert (ends()[-1]["code"], ends()[-1]["cause"]) == ("L102", "killed")
    assert not (tmp_path / "runs/ledger").exists(), "a controller that is away costs no node its place"

    saved = num_steps()
    wait(lambda: num_steps() > saved, "a step of the same job's next attempt")
    hold(0, 1)
    assert num_restarts(cluster, array) == 2, "a dead rank costs the job nothing"
    cluster.lose("127.0.0.2")
    wait(lambda: num_restarts(cluster, array) == 3, "the requeue after the node went down")
    wait(lambda: (tmp_path / "runs/ledger/127.0.0.2/0001.json").exists(), "the node left out")
    wait(lambda: excluded(cluster, array) == {"127.0.0.2"}, "the node taken out of all that waits")

    wait(lambda: person.slurm("status")["chains"][0]["is_over"], "the end of the chain")
    assert curve(only_run(recipe)) == straight, said()
    (line,) = person.slurm("pulse", "--once")["lines"]
    assert f"PULSE: cluster is not in the queue: done; step {STEPS}/{STEPS}, last sign of life" in line
