"""A shared file system that answers late and with ESTALE, under `emberward train --hosts`: all of it ends as on a disk.

Everything that the launcher, its hosts' supervisors and the ranks share lies there: the run, its saves, the prepared
data, the posts between hosts.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from ranks.runs import curve, metrics

from cluster.jobs import only_run, runs_of
from emberward.checkpoint import latest, verify
from emberward.report import read_lines

SOURCE = Path(__file__).with_name("shared_late.c")
STEPS = 15
LIMIT_S = 200.0
LATE_MS, STALE_PERMILLE = 20, 10

_RECIPE = """
name: cluster
steps: {steps}
sample_tokens: 0
timeout_s: 100
model: {{num_layers: 1, hidden: 32, num_heads: 4, seq_len: 32}}
layout: {{dp: 2, tp: 1, pp: 1}}
batch: {{global_batch: 8, micro_batch: 2}}
optim: {{lr: 5e-3, warmup_samples: 0}}
evaluation: {{samples: 8}}
save: {{interval: 3, keep: 3}}
data: {{train: "{text}", held_out: 0.2, cache: "{cache}"}}
"""


@pytest.fixture(scope="module")
def layer(tmp_path_factory):
    """The library that stands between a program and its shared files."""
    path = tmp_path_factory.mktemp("layer") / "shared_late.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(path), str(SOURCE), "-ldl"], check=True, timeout=60)
    return path


def write_recipe(folder: Path, text: Path) -> Path:
    folder.mkdir(exist_ok=True)
    recipe = folder / "recipe.yaml"
    recipe.write_text(_RECIPE.format(steps=STEPS, text=text, cache=folder / "cache"))
    return recipe


def train(folder: Path, text: Path, layer: Path) -> subprocess.Popen:
    """``emberward train`` on two hosts of this machine that share `folder`, below the layer."""
    recipe = write_recipe(folder, text)
    words = [
        sys.executable, "-m", "emberward", "train", str(recipe), "--hosts", "a=127.0.0.1,b=127.0.0.1", "--no-check",
        "--launcher", "local", "--nproc-per-node", "1", "--grace-s", "30", "--runs", str(folder / "runs"),
    ]  # fmt: skip
    below = {
        "LD_PRELOAD": str(layer), "SHARED_LATE_FOLDER": str(folder), "SHARED_LATE_MS": str(LATE_MS),
        "SHARED_LATE_STALE": str(STALE_PERMILLE),
    }  # fmt: skip
    with (folder / "train.log").open("ab") as log:
        return subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **below},
        )  # fmt: skip


def said(folder: Path) -> str:
    return (folder / "train.log").read_text(errors="replace")


@pytest.mark.timeout(600)
def test_a_save_a_stop_a_resume_and_the_posts_survive(layer, text, tmp_path, wait_until):
    """The premise: a file that was replaced while it is open cannot be read to its end."""
    kept = tmp_path / "kept"
    kept.write_text("old")
    replaced = "import os,sys; f=open(sys.argv[1],'rb',0); open(sys.argv[1]+'2','w').close(); "
    replaced += "os.rename(sys.argv[1]+'2',sys.argv[1]); f.read()"
    environment = {**os.environ, "LD_PRELOAD": str(layer), "SHARED_LATE_FOLDER": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", replaced, str(kept)], env=environment, capture_output=True, text=True)
    assert "Stale file handle" in shown.stderr

    shared, recipe = tmp_path / "shared", tmp_path / "shared" / "recipe.yaml"
    first = train(shared, text, layer)

    def num_steps() -> int:
        runs = runs_of(recipe)
        return len(metrics(runs[-1])) if runs else 0

    wait_until(lambda: num_steps() >= 5 or first.poll() is not None, "step 5", LIMIT_S)
    first.terminate()
    assert first.wait(LIMIT_S) == 75, said(shared)
    stopped = num_steps()
    again = train(shared, text, layer)
    assert again.wait(LIMIT_S) == 0, said(shared)
    run = only_run(recipe)
    found = [each for each in read_lines(run / "findings.jsonl") if each["code"] not in ("L111", "K106")]
    assert [each["code"] for each in found if each["severity"] in ("warning", "error")] == [], said(shared)
    assert verify(latest(run / "checkpoints")) == ()
    made = curve(run)
    assert stopped < STEPS
    assert [step for step, *_ in made] == list(range(1, STEPS + 1))

    plain = tmp_path / "plain"
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "emberward.rank", "--runs"]
    done = subprocess.run(
        [*words, str(plain / "runs"), str(write_recipe(plain, text))], env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert curve(only_run(plain / "recipe.yaml")) == made
