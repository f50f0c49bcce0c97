"""Strangers' scripts, none of which imports Emberward: six wrong ones, each with a right one of its kind."""

import json
import os
from pathlib import Path

import pytest

from emberward.cli._console import Screen
from emberward.cli._examine import ExamineOptions, examine

SCRIPTS = Path(__file__).parent / "scripts"

WRONG = {
    "wrong_uneven_ddp.py": (3, "M103", [0], "wrong_uneven_ddp.py:12"),
    "wrong_rank0_save.py": (3, "M101", [0], "wrong_rank0_save.py:10"),
    "wrong_opposite_groups.py": (2, "M104", [], "wrong_opposite_groups.py:9"),
    "wrong_flag.py": (3, "M103", [1], "wrong_flag.py:12"),
    "wrong_ring.py": (3, "M104", [], "wrong_ring.py:7"),
    "wrong_fsdp_shape.py": (3, "M102", [0], "wrong_fsdp_shape.py:19"),
}
"""Ranks; code, culprits and line of the finding. A cycle has no culprit: the line is its first member's."""

RIGHT = {
    "right_even_ddp.py": 2,
    "right_rank0_save.py": 2,
    "right_groups.py": 2,
    "right_flag.py": 3,
    "right_ring.py": 3,
    "right_fsdp_tp.py": 4,
    "right_pipeline.py": 2,
}


def look(capsys, path, num_ranks, *, max_steps=None, time_limit_s=100.0):
    options = ExamineOptions(
        words=(str(path),),
        num_ranks=num_ranks,
        max_steps=max_steps,
        time_limit_s=time_limit_s,
        environment=dict(os.environ),
    )
    code = examine(options, Screen(is_json=True))
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_script_is_told_with_its_line(capsys, name):
    num_ranks, code, culprits, line = WRONG[name]
    exit_code, answer = look(capsys, SCRIPTS / name, num_ranks)
    assert exit_code == 1
    assert not answer["proved"]
    found = next(finding for finding in answer["findings"] if finding["severity"] == "error")
    assert found["code"] == code
    assert found["culprit_ranks"] == culprits
    assert (found["cycle"][0]["site"] if found["cycle"] else found["site"]) == line


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_script_passes_to_its_end(capsys, name):
    exit_code, answer = look(capsys, SCRIPTS / name, RIGHT[name])
    assert answer["findings"] == []
    assert (exit_code, answer["proved"], answer["not_examined"], answer["refused"]) == (0, True, [], [])
    assert not (SCRIPTS / "model.pt").exists()


EFFECTS = """
import socket, subprocess, torch, torch.distributed as dist
from pathlib import Path
dist.init_process_group("gloo")
outside = Path({outside!r})
for effect in (
    lambda: (outside / "a.txt").write_text("x"),
    lambda: torch.save(torch.ones(1), outside / "b.pt"),
    lambda: socket.create_connection(("127.0.0.1", 9)),
    lambda: subprocess.run(["true"]),
):
    try:
        effect()
    except PermissionError:
        dist.all_reduce(torch.ones(1))
Path("inside.txt").write_text("x")
assert dist.get_world_size() == 2
"""


def test_effects_outside_are_refused_and_listed(capsys, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    script = tmp_path / "job" / "effects.py"
    script.parent.mkdir()
    script.write_text(EFFECTS.format(outside=str(outside)))
    code, answer = look(capsys, script, 2)
    assert code == 0
    assert list(outside.iterdir()) == []
    assert [path.name for path in script.parent.iterdir()] == ["effects.py"]
    assert [line.split()[0] for line in answer["refused"]] == ["write", "write", "connect", "start"]
    assert len(answer["not_examined"]) == 4
    assert [(f["code"], f["severity"]) for f in answer["findings"]] == [("M111", "notice")] * 4
    assert answer["findings"][0]["message"] == f"refused: {answer['refused'][0]}"
    assert answer["findings"][0]["next"] == "turn the effect off for the check"


ENDLESS = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


def test_what_comes_after_the_last_step_is_not_examined(capsys, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    code, answer = look(capsys, script, 2, max_steps=3)
    assert code == 0
    assert [(f["code"], f["severity"]) for f in answer["findings"]] == [("M110", "notice")]
    assert answer["findings"][0]["message"] == "not examined: what comes after optimizer step 3"
    assert answer["findings"][0]["next"] == "raise --max-steps or --time-limit"
    assert answer["num_steps"] == [3, 3]
    assert answer["not_examined"] == ["what comes after optimizer step 3"]


def test_the_time_limit_ends_an_endless_script(capsys, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("import torch.distributed as dist\ndist.init_process_group('gloo')\nwhile True:\n    pass\n")
    code, answer = look(capsys, script, 2, time_limit_s=3.0)
    assert (code, answer["proved"]) == (0, False)
    assert answer["not_examined"][0].startswith("what comes after 3 s")


def test_an_exception_is_the_culprit_and_not_those_who_wait(capsys, tmp_path):
    script = tmp_path / "raises.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "if dist.get_rank() == 1:\n"
        "    raise ValueError('bad shard')\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    code, answer = look(capsys, script, 3)
    assert code == 1
    first = answer["findings"][0]
    assert (first["code"], first["culprit_ranks"], first["site"]) == ("M109", [1], "raises.py:4")
    assert first["message"] == "rank 1 raised ValueError: bad shard"
