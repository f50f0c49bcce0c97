"""Files of an examined script without a view of the machine: what it sees is what it would, and the disk stays."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine

PROGRAM = Path(__file__).parent / "scripts" / "file_changes.py"


def files_of(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        held = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else None
        found[str(path.relative_to(folder))] = (path.lstat().st_mode, path.lstat().st_mtime_ns, held)
    return found


def prepare(folder):
    """Files that were there before the script."""
    (folder / "a" / "b" / "c").mkdir(parents=True)
    (folder / "b").mkdir()
    (folder / "a" / "b" / "d").write_text("old")
    (folder / "a" / "c").write_text("older")
    (folder / "c").symlink_to("a")
    (folder / "b" / "a").symlink_to("nowhere")


def run(folder, seed, *layer):
    done = subprocess.run(
        [sys.executable, PROGRAM, str(seed), *layer],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_look_as_on_the_disk_and_leave_it_alone(tmp_path, seed):
    for name in ("real", "layered"):
        (tmp_path / name).mkdir()
        prepare(tmp_path / name)
    before = files_of(tmp_path / "layered")
    (tmp_path / "layer").mkdir()
    seen, tree, place = run(tmp_path / "real", seed)
    seen_layered, tree_layered, place_layered = run(tmp_path / "layered", seed, str(tmp_path / "layer"))
    assert seen_layered == seen
    assert tree_layered == tree
    assert place_layered == place
    assert files_of(tmp_path / "layered") == before
    assert files_of(tmp_path / "real") != before


TRAINING = """
import os, shutil, sqlite3, subprocess, sys, torch, torch.distributed as dist
from pathlib import Path
from safetensors.torch import load_file, save_file

dist.init_process_group("gloo")
here = Path(__file__).parent
model = torch.nn.Linear(4, 2)
if dist.get_rank() == 0:
    (here / "saves").mkdir()
    torch.save(model.state_dict(), str(here / "saves" / "state.tmp"))
    os.replace(here / "saves" / "state.tmp", here / "saves" / "state.pt")
    save_file(model.state_dict(), str(here / "saves" / "model.safetensors"))
    (here / "notes.txt").write_text("changed")
    (here / "old.bin").unlink()
    with sqlite3.connect(str(here / "log.db")) as log:
        log.execute("create table steps (loss real)")
dist.barrier()
assert not (here / "old.bin").exists() and (here / "notes.txt").read_text() == "changed"
model.load_state_dict(torch.load(str(here / "saves" / "state.pt"), mmap=True))
model.load_state_dict(load_file(here / "saves" / "model.safetensors"))
dist.all_reduce(torch.ones(1))
"""
NO_VIEW = """
import sys
from emberward.sources.script import _sandbox
from emberward.sources.script.child import main

def unshare():
    raise _sandbox.NoSandboxError("unshare: Operation not permitted")

_sandbox._unshare = unshare
sys.exit(main(sys.argv[1:]))
"""


def test_a_script_that_saves_and_reloads_is_proved_without_a_view_of_the_machine(capsys, monkeypatch, tmp_path):
    (tmp_path / "notes.txt").write_text("as it was")
    (tmp_path / "old.bin").write_text("old")
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    before = files_of(tmp_path)

    def start(folder, job, environment):
        subprocess.run([sys.executable, "-c", NO_VIEW, str(folder.path)], check=True)
        return ""

    options = ExamineOptions(words=("train.py",), num_ranks=2, max_steps=None, time_limit_s=100.0, environment={})
    code = examine(options, Screen(is_json=True), start=start)
    answer = json.loads(capsys.readouterr().out)
    assert (code, answer["findings"], answer["proved"], answer["not_examined"]) == (0, [], True, [])
    assert any("unshare: Operation not permitted" in line for line in answer["assumptions"])
    assert files_of(tmp_path) == before
