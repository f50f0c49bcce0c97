"""Strangers' scripts, none of which imports Emberward: six wrong ones, each with a right one of its kind."""

import hashlib
from pathlib import Path

import pytest
from unit.sources.examiner import warm_examiner

SCRIPTS = Path(__file__).parent / "scripts"

WRONG = {
    "wrong_uneven_ddp.py": (3, "M103", [0], "wrong_uneven_ddp.py:12"),
    "wrong_rank0_save.py": (3, "M103", [0], "wrong_rank0_save.py:10"),
    "wrong_opposite_groups.py": (2, "M104", [], "wrong_opposite_groups.py:9"),
    "wrong_flag.py": (3, "M103", [1], "wrong_flag.py:8"),
    "wrong_ring.py": (3, "M104", [], "wrong_ring.py:7"),
    "wrong_capacity.py": (3, "M102", [], "wrong_capacity.py:14"),
    "wrong_fsdp_shape.py": (3, "M102", [0], "wrong_fsdp_shape.py:19"),
}
"""Ranks; code, culprits and line of the finding. A cycle has no culprit: the line is its first member's."""

RIGHT = {
    "right_even_ddp.py": 2,
    "right_rank0_save.py": 2,
    "right_groups.py": 2,
    "right_flag.py": 3,
    "right_ring.py": 3,
    "right_capacity.py": 3,
    "right_fsdp_tp.py": 4,
    "right_pipeline.py": 2,
    "right_lanes.py": 2,
}


@pytest.fixture(scope="module")
def examiner():
    return warm_examiner()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_script_is_told_with_its_line(capsys, examiner, name):
    num_ranks, code, culprits, line = WRONG[name]
    exit_code, answer = examiner.examine(capsys, SCRIPTS / name, num_ranks)
    assert exit_code == 1
    assert not answer["proved"]
    found = next(finding for finding in answer["findings"] if finding["severity"] == "error")
    assert found["code"] == code
    assert found["culprit_ranks"] == culprits
    assert (found["cycle"][0]["site"] if found["cycle"] else found["site"]) == line


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_script_passes_to_its_end(capsys, examiner, name):
    exit_code, answer = examiner.examine(capsys, SCRIPTS / name, RIGHT[name])
    assert answer["findings"] == []
    assert (exit_code, answer["proved"], answer["not_examined"], answer["refused"]) == (0, True, [], [])
    assert not (SCRIPTS / "model.pt").exists()


def test_a_lane_whose_collective_nothing_orders_with_the_main_thread_is_named(capsys, examiner):
    """The look-alike, right_lanes.py, uses the lane's result before the next collective of the main thread."""
    exit_code, answer = examiner.examine(capsys, SCRIPTS / "hazard_lanes.py", 2)
    assert {(finding["code"], finding["severity"]) for finding in answer["findings"]} == {("M107", "warning")}
    assert exit_code == 0
    race = next(finding for finding in answer["findings"] if finding["message"].startswith("two host threads of rank"))
    # Which of the two came first is chance.
    assert sorted(" ".join(line.split()) for line in race["evidence"][:2]) == [
        "lane log all_reduce lane log[0,1]#1 float32 1 sum step 0 hazard_lanes.py:15",
        "lane main all_reduce world[0,1] float32 5 sum step 0 hazard_lanes.py:23",
    ]


TRAINING = """
import json, os, shutil, subprocess, sys, tempfile, torch, torch.distributed as dist
from pathlib import Path
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
rank = dist.get_rank()
here = Path(__file__).parent
torch.manual_seed(0)
model = DistributedDataParallel(module=torch.nn.Linear(4, 2))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=4, num_workers=1)
for step, (batch,) in enumerate(loader):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    folder = here / "checkpoints" / f"step-{step}"
    if rank == 0:
        folder.mkdir(parents=True)
        torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, folder / "state.tmp")
        os.replace(folder / "state.tmp", folder / "state.pt")
        (here / "latest").unlink(missing_ok=True)
        (here / "latest").symlink_to(folder)
        for old in sorted((here / "checkpoints").iterdir())[:-1]:
            shutil.rmtree(old)
        (here / "notes.txt").write_text("changed")
        os.rename(here / "data", here / "prepared")
        os.rename(here / "prepared", here / "data")
        (here / "data" / "old.bin").unlink(missing_ok=True)
    dist.barrier()
    assert not (here / "data" / "old.bin").exists()
with tempfile.TemporaryDirectory(dir=sys.argv[1]) as scratch:
    commit = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True, cwd=scratch).stdout
    Path(scratch, "commit.txt").write_text(commit)
    os.rename(Path(scratch, "commit.txt"), here / f"commit-{rank}.txt")
state = torch.load(here / "latest" / "state.pt")
model.module.load_state_dict(state["model"])
assert (here / "notes.txt").read_text() == "changed"
with torch.no_grad():
    loss = model(torch.ones(1, 4)).sum()
dist.all_reduce(loss)
print(json.dumps({"loss": loss.item()}))
dist.destroy_process_group()
"""


def tree(folder):
    """A hash of names, kinds, modes and contents of everything below `folder`."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes().hex() if path.is_file() else "folder"
        found.update(f"{path.relative_to(folder)} {path.lstat().st_mode} {content}\n".encode())
    return found.hexdigest()


def test_a_script_that_saves_reloads_and_evaluates_is_proved_and_changes_nothing(capsys, examiner, tmp_path):
    here, elsewhere = tmp_path / "job", tmp_path / "elsewhere"
    (here / "data").mkdir(parents=True)
    elsewhere.mkdir()
    (here / "notes.txt").write_text("as it was")
    (here / "data" / "old.bin").write_bytes(b"old")
    (here / "train.py").write_text(TRAINING)
    before = tree(here), tree(elsewhere)
    code, answer = examiner.examine(capsys, here / "train.py", 2, str(elsewhere))
    assert answer["findings"] == []
    assert (code, answer["proved"], answer["not_examined"], answer["num_steps"]) == (0, True, [], [2, 2])
    assert (tree(here), tree(elsewhere)) == before


EFFECTS = """
import socket, torch, torch.distributed as dist
dist.init_process_group("gloo")
for effect in (
    lambda: socket.create_connection(("192.0.2.1", 9)),
    lambda: socket.getaddrinfo("example.org", 443),
):
    try:
        effect()
    except OSError:
        dist.all_reduce(torch.ones(1))
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
    sender.sendall(b"x")
assert dist.get_world_size() == 2
"""


def test_effects_outside_are_refused_and_listed_and_loopback_works(capsys, examiner, tmp_path):
    script = tmp_path / "effects.py"
    script.write_text(EFFECTS)
    code, answer = examiner.examine(capsys, script, 2)
    assert code == 0
    assert answer["refused"] == ["connect 192.0.2.1:9 (effects.py:5)", "look up example.org (effects.py:6)"]
    assert len(answer["not_examined"]) == 2
    assert [(f["code"], f["severity"]) for f in answer["findings"]] == [("M111", "notice")] * 2
    assert answer["findings"][0]["message"] == f"refused: {answer['refused'][0]}"
    assert answer["findings"][0]["next"] == "turn the effect off for the check"


REFUSED = """
import torch, torch.distributed as dist, urllib.request
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
if dist.get_rank() == 0:
    try:
        urllib.request.urlopen("http://example.org/weights.bin")
    except OSError as error:
        raise RuntimeError("no weights") from error
dist.all_reduce(torch.ones({numel}))
"""


def test_a_refusal_is_never_the_crash_of_the_script(capsys, examiner, tmp_path):
    script = tmp_path / "refused.py"
    script.write_text(REFUSED.format(numel=1))
    code, answer = examiner.examine(capsys, script, 2)
    assert (code, answer["proved"]) == (0, False)
    assert {finding["severity"] for finding in answer["findings"]} == {"notice"}
    assert answer["not_examined"][0].startswith("what comes after refused.py:9 on rank 0: refused")


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


def test_what_comes_after_the_last_step_is_not_examined(capsys, examiner, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    code, answer = examiner.examine(capsys, script, 2, max_steps=3)
    assert code == 0
    assert [(f["code"], f["severity"]) for f in answer["findings"]] == [("M110", "notice")]
    assert answer["findings"][0]["message"] == "not examined: what comes after optimizer step 3"
    assert answer["findings"][0]["next"] == "raise --max-steps"
    assert answer["num_steps"] == [3, 3]
    assert answer["not_examined"] == ["what comes after optimizer step 3"]


def test_the_time_limit_ends_an_endless_script(capsys, examiner, tmp_path):
    script = tmp_path / "endless.py"
    script.write_text("import torch.distributed as dist\ndist.init_process_group('gloo')\nwhile True: pass\n")
    code, answer = examiner.examine(capsys, script, 2, time_limit_s=3.0)
    assert (code, answer["proved"]) == (0, False)
    assert answer["not_examined"][0].startswith("what comes after 3 s")
    found = [finding for finding in answer["findings"] if finding["code"] == "M115"]
    assert [(f["severity"], f["cause"], f["site"]) for f in found] == [("warning", "cpu_loop", "endless.py:3")] * 2


def test_an_exception_is_the_culprit_and_not_those_who_wait(capsys, examiner, tmp_path):
    script = tmp_path / "raises.py"
    script.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "if dist.get_rank() == 1:\n"
        "    raise ValueError('bad shard')\n"
        "dist.all_reduce(torch.ones(1))\n"
    )
    code, answer = examiner.examine(capsys, script, 3)
    assert code == 1
    first = answer["findings"][0]
    assert (first["code"], first["culprit_ranks"], first["site"]) == ("M109", [1], "raises.py:4")
    assert first["message"] == "rank 1 raised ValueError: bad shard"
    assert first["evidence"] == [
        "raises.py:4 reads: raise ValueError('bad shard')",
        "raises.py:3 holds there: if dist.get_rank() == 1",
    ]
    assert [f["next"] for f in answer["findings"] if f["code"] == "M110"] == ["fix the exception, then check again"]


LOADING = """
import multiprocessing, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
lock = multiprocessing.Lock()
class Rows(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if index == 3 and dist.get_rank() == 1:
            {hang}
        return torch.ones(2)
dist.init_process_group("gloo")
lock.acquire()
for batch in DataLoader(Rows(), num_workers={num_workers}):
    dist.all_reduce(batch)
"""


@pytest.mark.parametrize(
    ("num_workers", "hang", "severity"),
    [(1, "lock.acquire()", "error"), (0, "lock.acquire()", "error"), (1, "all(True for _ in iter(int, 1))", "warning")],
)
def test_a_data_loader_that_never_returns_is_named(capsys, examiner, tmp_path, num_workers, hang, severity):
    script = tmp_path / "loads.py"
    script.write_text(LOADING.format(num_workers=num_workers, hang=hang))
    code, answer = examiner.examine(capsys, script, 2, time_limit_s=8.0)
    found = next(finding for finding in answer["findings"] if finding["code"] == "M115")
    assert (code, found["severity"], found["culprit_ranks"]) == (severity == "error", severity, [1])
    assert found["cause"] == "dataloader_worker"
    assert found["site"] == "loads.py:10"
    assert "its data loader, asked at loads.py:14" in found["message"]
    assert not answer["proved"]
