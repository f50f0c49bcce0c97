"""The same recipe under srun of a real SLURM: trains, stops and goes on, dies, is refused, and names its places."""

import json
import os
import re
import signal
import time

import pytest
from ranks.runs import curve, metrics

from cluster.jobs import LIMIT_S, STEPS, log_of, only_run, rank_command, runs_of, srun, torchrun, write_recipe
from emberward.checkpoint import latest, verify


@pytest.fixture(scope="module")
def straight(cluster, text, tmp_path_factory):
    """The curve of the recipe under plain torchrun, that nobody interrupts."""
    recipe = write_recipe(tmp_path_factory.mktemp("torchrun"), text)
    assert torchrun(cluster, recipe).wait() == 0, log_of(recipe, "torchrun.log")
    found = curve(only_run(recipe))
    assert [step for step, *_ in found] == list(range(1, STEPS + 1))
    return found


@pytest.fixture(autouse=True)
def nothing_left(cluster, wait_until):
    """After each test no task of its jobs lives."""
    yield
    wait_until(lambda: not cluster.tasks(), "the end of all tasks", timeout_s=20.0)


def num_steps(recipe) -> int:
    runs = runs_of(recipe)
    return len(metrics(runs[-1])) if runs else 0


def pid_of(recipe, rank: int) -> int:
    return json.loads((only_run(recipe) / "ranks" / f"rank{rank:05d}.json").read_text())["pid"]


def summary_of(recipe):
    return json.loads((only_run(recipe) / "summary.json").read_text())


def test_srun_trains_the_curve_of_torchrun(cluster, text, tmp_path, straight):
    recipe = write_recipe(tmp_path, text)
    assert srun(cluster, recipe).wait() == 0, log_of(recipe)
    run = only_run(recipe)
    assert curve(run) == straight
    assert summary_of(recipe)["outcome"] == "done"
    assert len(summary_of(recipe)["ranks"]) == 2
    assert verify(latest(run / "checkpoints")) == ()
    assert log_of(recipe).count(f"step {STEPS}/{STEPS}  loss ") == 1, "rank 0 alone tells each step"


def test_sigterm_to_a_step_saves_and_ends_with_75_and_the_next_srun_goes_on(
    cluster, text, tmp_path, straight, wait_until
):
    recipe = write_recipe(tmp_path, text)
    first = srun(cluster, recipe)
    wait_until(lambda: num_steps(recipe) >= 4 or first.poll() is not None, "step 4")
    wait_until(
        lambda: re.search(r"^step +4/", log_of(recipe), re.MULTILINE), "step 4 in srun's output, while the ranks go on"
    )
    (step,) = cluster.steps()
    assert cluster.run("scancel", "--signal=TERM", step).returncode == 0
    assert first.wait() == 75, log_of(recipe)
    assert "recvValue" not in log_of(recipe), "rank 0 took the store away while another rank still read"
    summary = summary_of(recipe)
    assert summary["outcome"] == "stopped"
    assert 4 <= summary["step"] < STEPS
    assert latest(only_run(recipe) / "checkpoints").name == f"step-{summary['step']:08d}"
    assert srun(cluster, recipe, log="again.log").wait() == 0, log_of(recipe, "again.log")
    assert summary_of(recipe)["outcome"] == "done"
    assert curve(only_run(recipe)) == straight


def test_a_job_that_ends_with_75_is_requeued_by_slurm_and_goes_on(cluster, text, tmp_path, straight, wait_until):
    """--fresh is meant for the job's first start: a requeued job that began anew would never end."""
    recipe = write_recipe(tmp_path, text)
    log = recipe.parent / "srun.log"
    script = f"srun --kill-on-bad-exit=1 {' '.join(rank_command(recipe, '--fresh'))}"
    job = cluster.submit(script, "--nodes=2", "--ntasks=2", "--requeue", log=log)
    wait_until(lambda: num_steps(recipe) >= 4, "step 4")
    assert cluster.run("scancel", "--signal=TERM", str(job)).returncode == 0
    wait_until(lambda: cluster.job(job)["Restarts"] == "1", "the requeue", timeout_s=LIMIT_S)
    wait_until(lambda: cluster.job(job)["JobState"] in ("COMPLETED", "FAILED"), "the job's end", timeout_s=LIMIT_S)
    assert cluster.job(job)["ExitCode"] == "0:0", log_of(recipe)
    assert summary_of(recipe)["outcome"] == "done"
    assert curve(only_run(recipe)) == straight


def test_a_killed_rank_ends_the_step_in_seconds_and_the_next_srun_goes_on_on_one_node(
    cluster, text, tmp_path, straight, wait_until
):
    recipe = write_recipe(tmp_path, text)
    first = srun(cluster, recipe)
    wait_until(lambda: num_steps(recipe) >= 7 or first.poll() is not None, "step 7")
    began_s = time.monotonic()
    os.kill(pid_of(recipe, 1), signal.SIGKILL)
    assert first.wait() != 0
    assert time.monotonic() - began_s < 15.0
    wait_until(lambda: not cluster.tasks(), "the end of all tasks", timeout_s=15.0)
    assert not (only_run(recipe) / "summary.json").exists()
    assert srun(cluster, recipe, nodes=1, log="again.log").wait() == 0, log_of(recipe, "again.log")
    assert curve(only_run(recipe)) == straight


def two_programs(cluster, recipe, *differing: str) -> str:
    """What srun wrote when task 1 alone was started with `differing`; fails unless srun failed."""
    plan = recipe.parent / "tasks.conf"
    lines = [f"{rank} {' '.join(rank_command(recipe, *more))}" for rank, more in enumerate(((), differing))]
    plan.write_text("\n".join(lines) + "\n")
    command = ["srun", "--nodes=2", "--ntasks=2", "--label", "--multi-prog", str(plan)]
    began = cluster.launch(*command, log=recipe.parent / "srun.log", limit_s=60.0)
    assert began.wait() not in (0, 124), log_of(recipe)
    return log_of(recipe)


def test_another_override_on_one_task_is_named_on_both_before_the_start(cluster, text, tmp_path):
    recipe = write_recipe(tmp_path, text)
    said = two_programs(cluster, recipe, "optim.lr=1e-3").splitlines()
    for rank in (0, 1):
        assert any(line.startswith(f"{rank}: ") and "L101 ranks differ in configuration" in line for line in said), said
    assert runs_of(recipe) == [], "a run was opened for ranks that cannot start"


def test_a_recipe_that_is_bad_on_one_task_is_told_by_the_other(cluster, text, tmp_path):
    recipe = write_recipe(tmp_path, text)
    said = two_programs(cluster, recipe, "optim.lrr=1e-3").splitlines()
    assert any(line.startswith("1: ") and "C101 unknown key" in line for line in said), said
    assert any(line.startswith("0: ") and "L103 rank 1 could not start" in line for line in said), said
    assert runs_of(recipe) == []


# Without the rank's room, whose torch takes seconds to import: here only the place is asked for.
PLACES = """
import dataclasses, importlib.util, json, os, pathlib, socket, sys
package, = importlib.util.find_spec("emberward").submodule_search_locations
spec = importlib.util.spec_from_file_location("place", pathlib.Path(package, "rank", "_place.py"))
sys.modules["place"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
place = module.read_place(os.environ, host=socket.gethostname())
print(json.dumps({**dataclasses.asdict(place), "node": os.environ["SLURM_NODEID"]}), flush=True)
"""


def test_the_tasks_of_a_step_agree_on_the_place_to_meet(cluster, tmp_path, wait_until):
    """Steps that are smaller than their job, and a program of the batch script that srun did not start."""
    program, log = tmp_path / "places.py", tmp_path / "places.log"
    program.write_text(PLACES)
    python, *_ = rank_command(tmp_path)
    steps = [f"srun --nodes={nodes} --ntasks={tasks} {python} {program}" for nodes, tasks in ((2, 3), (1, 2))]
    script = f"{steps[0]}\necho --\n{steps[1]}\necho --\n{python} {program}"
    job = cluster.submit(script, "--nodes=2", "--ntasks=4", log=log)
    wait_until(lambda: cluster.job(job)["JobState"] in ("COMPLETED", "FAILED"), "the job's end", timeout_s=LIMIT_S)
    uneven, small, alone = log.read_text().split("--\n")
    places = sorted(map(json.loads, uneven.splitlines()), key=lambda place: place["rank"])
    seen = [[place[key] for key in ("rank", "node", "local_rank", "local_world_size")] for place in places]
    assert seen == [[0, "0", 0, 2], [1, "0", 1, 2], [2, "1", 0, 1]]
    assert {place["world_size"] for place in places} == {3}
    second = [json.loads(line) for line in small.splitlines()]
    assert [place["local_world_size"] for place in second] == [2, 2]
    assert {place["master"] for place in places + second} == {cluster.nodes[0]}
    (first_port,), (second_port,) = ({place["port"] for place in step} for step in (places, second))
    assert first_port != second_port
    assert "L103 srun did not start this program" in alone
