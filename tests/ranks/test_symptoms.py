"""Every command of docs/symptoms.md is run as it stands, its capital words filled in: none is misspelt, none breaks."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from unit.cli.door import emberward

from ranks.runs import SMALL, write_text

DATA = Path(__file__).parents[1] / "data"
PAGE = (Path(__file__).parents[2] / "docs" / "symptoms.md").read_text(encoding="utf-8")
COMMANDS = list(
    dict.fromkeys(
        command
        for line in PAGE.splitlines()
        if line.startswith("|")
        for command in re.findall(r"`emberward ([^`]+)`", line.split("|")[2])
    )
)
BOUNDED = {"doctor": ("--budget", "2")}
"""What a command that goes on for minutes is given besides."""
PROGRAM = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(20):
    dist.all_reduce(torch.ones(8))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a program, and with a run of two ranks that has two saves."""
    folder = tmp_path_factory.mktemp("symptoms")
    (folder / "train.py").write_text(PROGRAM)
    words = [*SMALL, f"data.train={write_text(folder / 'text')}", "data.held_out=0.2", "steps=6", "save.interval=3"]
    said = emberward("train", "bloom_tiny", *words, "--ranks", "2", "--no-check", "--json", cwd=folder)
    assert said.code == 0, said.err
    return folder, words


def filled(command, place, pid):
    """The words of a command, with what stands for its capital ones."""
    folder, words = place
    (run,) = (folder / "runs" / "bloom_tiny").iterdir()
    saves = sorted(str(path) for path in (run / "checkpoints").glob("step-*"))
    names = {
        "RUN": [str(run)], "PID": [str(pid)], "FOLDER": [str(DATA / "flight_recorder_gloo")], "STEP": ["3"],
        "LOGS": [str(DATA / "logs")], "DUMPS": [str(DATA / "flight_recorder_nccl")], "N": ["8"], "A": [saves[0]],
        "B": [saves[-1]], "SAVE": [saves[-1]], "NAME": ["embed.weight"],
        "RECIPE": ["bloom_tiny", *words, "--ranks", "2"] if command.startswith("train") else ["bloom_tiny"],
    }  # fmt: skip
    if "reshape" in command:
        names["FOLDER"] = [str(folder / "saves")]
    words = command.split()
    return [*(part for word in words for part in names.get(word, [word])), *BOUNDED.get(words[0], ())]


def is_served(words, folder):
    """Whether ``emberward ui`` answers; it is ended then, by Ctrl-C."""
    command = [sys.executable, "-m", "emberward", *words, "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        said = json.loads(child.stdout.readline())
        child.send_signal(signal.SIGINT)
        return said["port"] > 0 and child.wait(20) == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_symptom_runs(command, place):
    folder, _ = place
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        words = filled(command, place, stranger.pid)
        if words[0] == "ui":
            assert is_served(words, folder)
        else:
            said = emberward(*words, cwd=folder)
            # 0: nothing was found; 1: a finding. A command that is not understood, or that breaks, has another code.
            assert said.code in (0, 1), (words, said.out[-2000:], said.err[-2000:])
        stranger.communicate(b"\n", timeout=20)
