"""Programs that an examined script starts: nvidia-smi is answered, git reads, and nothing that writes runs unseen."""

import json
import os
import subprocess
import sys

import pytest
from unit.sources.test_file_layer import NO_VIEW

from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine
from emberward.sources.script import _programs, nvidia_smi


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            ["--query-gpu=index,name,memory.total", "--format=csv"],
            "index, name, memory.total [MiB]\n0, examined, 65536 MiB\n1, examined, 65536 MiB\n",
        ),
        (["--query-gpu=memory.used,fan.speed", "--format=csv,noheader,nounits", "-i", "1"], "0, [N/A]\n"),
        (["-L"], "GPU 0: examined (UUID: {0})\nGPU 1: examined (UUID: {1})\n"),
        (["--query-compute-apps=pid,used_memory", "--format=csv,noheader"], ""),
        (["--gpu-reset"], None),
    ],
)
def test_nvidia_smi_answers_the_usual_forms(words, answer):
    found = nvidia_smi.answer(2, words)
    ids = [f"GPU-00000000-0000-0000-0000-{index:012}" for index in range(2)]
    assert found == (None if answer is None else answer.format(*ids))


def test_the_played_devices_have_one_size():
    from emberward.sources.script import _driver

    assert nvidia_smi.MEMORY_MIB << 20 == _driver.MEMORY_BYTES


@pytest.mark.parametrize(
    ("line", "is_run"),
    [
        ("git rev-parse --short HEAD", True),
        ("git -C .. --no-pager log -1", True),
        ("git status --porcelain", True),
        ("git branch --show-current", True),
        ("git config --get user.name", True),
        ("nvidia-smi -L", True),
        ("uname -a", True),
        ("git commit -m x", False),
        ("git branch new", False),
        ("git config user.name x", False),
        ("git -c alias.log=!touch log", False),
        ("git show --output=x", False),
        ("git log > log.txt", False),
        ("/usr/bin/nvidia-smi --gpu-reset", False),
        ("touch x", False),
        ("", False),
    ],
)
def test_what_may_run_without_a_view_of_the_machine_only_reads(line, is_run):
    words = line.split() or [""]
    assert _programs.only_reads("os.system", (line.encode(),), own_folder="/own") == is_run
    assert _programs.only_reads("subprocess.Popen", ("sh", ["/bin/sh", "-c", line], None, None), own_folder="/own") == (
        is_run
    )
    if ">" not in line:
        assert _programs.only_reads("subprocess.Popen", (words[0], words, None, None), own_folder="/own") == is_run
    assert not _programs.only_reads("os.exec", (words[0], words, None), own_folder="/own")
    assert not _programs.only_reads("subprocess.Popen", (words[0], words, None, {}), own_folder="/own")


VIEW = """
import sys
from emberward.sources.script.child import main
sys.exit(main(sys.argv[1:]))
"""
SCRIPT = """
import os, shutil, subprocess, torch, torch.distributed as dist
dist.init_process_group("nccl")
def said(*words, **named):
    return subprocess.check_output(words, text=True, **named).strip()
commit = said("git", "rev-parse", "HEAD", cwd=os.path.dirname(os.path.abspath(__file__)))
assert len(commit) == 40 and said("git", "status", "--porcelain") == "?? train.py"
names = said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
assert len(names) == torch.cuda.device_count() == 2 and names[0] == torch.cuda.get_device_name(0)
assert shutil.which("nvidia-smi") and os.system("nvidia-smi") == 0
assert subprocess.run("nvidia-smi -L", shell=True, capture_output=True).stdout.count(b"GPU ") == 2
dist.all_reduce(torch.ones(1))
{line}
dist.all_reduce(torch.ones(1))
"""


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("has_view", "line", "outcome"),
    [(True, "subprocess.run(['touch', 'x'])", "proved"), (False, "", "proved"),
     (False, "subprocess.run(['touch', 'x'])", "refused")],
)  # fmt: skip
def test_git_and_nvidia_smi_are_answered_and_the_folder_stays(capsys, monkeypatch, tmp_path, has_view, line, outcome):
    (tmp_path / "notes.txt").write_text("old")
    (tmp_path / "train.py").write_text(SCRIPT.format(line=line))
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "notes.txt"), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    os.utime(tmp_path / "notes.txt", (1, 1))  # so that git would like to write its index anew
    before = contents(tmp_path)
    program = VIEW if has_view else NO_VIEW
    monkeypatch.chdir(tmp_path)

    def start(folder, job, environment):
        subprocess.run([sys.executable, "-c", program, str(folder.path)], check=True)
        return ""

    options = ExamineOptions(words=("train.py",), num_ranks=2, max_steps=None, time_limit_s=60.0, environment={})
    code = examine(options, Screen(is_json=True), start=start)
    answer = json.loads(capsys.readouterr().out)
    assert (code, [f for f in answer["findings"] if f["severity"] != "notice"]) == (0, [])
    assert answer["proved"] == (outcome == "proved")
    assert any("start touch" in each for each in answer["not_examined"]) == (outcome == "refused")
    assert contents(tmp_path) == before
