"""`emberward train --hosts` on network namespaces: a stop, a link down, a power cut, a reboot, a killed rank."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ranks.runs import curve, metrics

from cluster.hosts import Hosts
from cluster.jobs import only_run, runs_of
from cluster.machines import Machines
from emberward.checkpoint import latest, verify
from emberward.runs import left_out

STEPS = 30
LIMIT_S = 120.0

_RECIPE = """
name: cluster
steps: {steps}
sample_tokens: 0
timeout_s: 100
model: {{num_layers: 1, hidden: 32, num_heads: 4, seq_len: 32}}
layout: {{dp: {dp}, tp: 1, pp: 1}}
batch: {{global_batch: 12, micro_batch: 2}}
optim: {{lr: 5e-3, warmup_samples: 0}}
evaluation: {{samples: 12}}
save: {{interval: 2, keep: 40}}
data: {{train: "{text}", held_out: 0.2, cache: "{cache}"}}
"""


def write_recipe(folder: Path, text: Path, dp: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.yaml"
    path.write_text(_RECIPE.format(steps=STEPS, dp=dp, text=text, cache=text.parent / "cache"))
    return path


@pytest.fixture
def machines(tmp_path):
    made = Machines(Hosts(4), tmp_path)
    try:
        made.hosts.open()
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory):
    """The curve of three ranks of one machine, that nobody interrupts."""
    recipe = write_recipe(tmp_path_factory.mktemp("straight"), text)
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "-m", "emberward.rank"]
    done = subprocess.run(
        [*words, "--runs", str(recipe.parent / "runs"), str(recipe)], env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return curve(only_run(recipe))


def said(recipe: Path) -> str:
    return (recipe.parent / "train.log").read_text(errors="replace")


def num_steps(recipe: Path) -> int:
    runs = runs_of(recipe)
    return len(metrics(runs[-1])) if runs else 0


def attempts(recipe: Path) -> list[dict]:
    lines = (only_run(recipe) / "attempts.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == "end"]


def until_step(recipe: Path, started: subprocess.Popen, wait_until, step: int = 5) -> None:
    wait_until(lambda: num_steps(recipe) >= step or started.poll() is not None, f"step {step}", LIMIT_S)
    assert started.poll() is None, said(recipe)


def until_saved(recipe: Path, started: subprocess.Popen, wait_until, step: int) -> None:
    def is_saved() -> bool:
        save = latest(only_run(recipe) / "checkpoints")
        return save is not None and int(save.name.removeprefix("step-")) >= step

    wait_until(lambda: is_saved() or started.poll() is not None, f"a save of step {step} or later", LIMIT_S)
    assert started.poll() is None, said(recipe)


@pytest.mark.timeout(600)
def test_a_stop_is_saved_on_all_hosts_and_a_spare_takes_the_place_of_a_host_whose_link_is_down(
    machines, text, tmp_path, straight, wait_until
):
    recipe = write_recipe(tmp_path / "job", text)
    first = machines.train(recipe, 4, "--nnodes", "3")
    until_step(recipe, first, wait_until, 4)
    first.terminate()
    assert first.wait(LIMIT_S) == 75, said(recipe)
    started = machines.train(recipe, 4, "--nnodes", "3")
    until_step(recipe, started, wait_until, num_steps(recipe) + 2)
    machines.hosts.cut(1)
    wait_until(lambda: started.poll() is not None, "the end", 2 * LIMIT_S)
    host, lost, third, spare = machines.hosts.names
    assert [(end["outcome"], end["code"]) for end in attempts(recipe)] == [
        ("stopped", None),
        ("failed", "L112"),
        ("done", None),
    ], said(recipe)
    assert attempts(recipe)[1]["hosts"] == [lost]
    assert list(left_out(only_run(recipe).parent.parent)) == [lost]
    assert f"without {lost}, on {host}, {spare}, {third}" in said(recipe)
    assert curve(only_run(recipe)) == straight
    assert verify(latest(only_run(recipe) / "checkpoints")) == ()
    assert all(machines.processes(name) == [] for name in machines.hosts.names)


@pytest.mark.timeout(600)
def test_a_killed_rank_costs_no_host_but_a_power_cut_and_a_reboot_do_and_fewer_go_on(
    machines, text, tmp_path, straight, wait_until
):
    """Three hosts, then two, then one. The one that reboots answers at once: only the kernel's word tells of it.

    The clock of the second is five minutes ahead all the time, and nothing is told otherwise for it.
    """
    recipe = write_recipe(tmp_path / "job", text)
    machines.set_clock(machines.hosts.names[1], 300)
    started = machines.train(recipe, 3, "--min-hosts", "1", "--restarts", "3", "--grace-s", "5")
    until_step(recipe, started, wait_until)
    ranks = [json.loads(path.read_text()) for path in sorted((only_run(recipe) / "ranks").glob("rank*.json"))]
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    wait_until(lambda: len(attempts(recipe)) == 1 or started.poll() is not None, "the first end", LIMIT_S)
    assert attempts(recipe)[0]["code"] == "L102", said(recipe)
    assert left_out(only_run(recipe).parent.parent) == {}, "a death never costs a host its place"

    # Two attempts without a new save between them would be the last.
    until_saved(recipe, started, wait_until, (attempts(recipe)[0]["saved_step"] or 0) + 1)
    until_step(recipe, started, wait_until, attempts(recipe)[0]["last_step"] + 2)
    _, second, third = machines.hosts.names[:3]
    (machines.folder / f"off-{third}").touch()
    machines.hosts.lose(2)
    machines.kill_all(third)
    wait_until(lambda: len(attempts(recipe)) == 2 or started.poll() is not None, "the second end", LIMIT_S)
    saved, last = attempts(recipe)[1]["saved_step"], attempts(recipe)[1]["last_step"]

    until_step(recipe, started, wait_until, last + 2)
    machines.boot(second)
    machines.kill_all(second)
    wait_until(lambda: started.poll() is not None, "the end", 2 * LIMIT_S)
    ends = attempts(recipe)
    assert [end["code"] for end in ends] == ["L102", "L113", "L113", None], said(recipe)
    assert [end["hosts"] for end in ends[1:]] == [[third], [second], []]
    assert f"host {second} has booted again while it trained" in said(recipe)
    assert list(left_out(only_run(recipe).parent.parent)) == [second, third]
    found = curve(only_run(recipe))
    assert found[:saved] == straight[:saved], "on the same layout the curve is bitwise"
    assert [step for step, *_ in found] == list(range(1, STEPS + 1))
    assert [loss for _, loss, *_ in found] == pytest.approx([loss for _, loss, *_ in straight], abs=1e-3)


def test_a_host_that_does_not_answer_is_named_before_anything_starts(machines, text, tmp_path):
    recipe = write_recipe(tmp_path / "job", text)
    away = machines.hosts.names[1]
    (machines.folder / f"off-{away}").touch()
    assert machines.train(recipe, 3).wait(LIMIT_S) == 2
    assert f"L123 a host cannot be used\n  where     {away}\n" in said(recipe)
    assert "No route to host" in said(recipe)
    assert runs_of(recipe) == []
    assert all(machines.processes(name) == [] for name in machines.hosts.names)
