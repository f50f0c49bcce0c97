"""`emberward profile` around a real program of torch: what it finds, and what it leaves as it was."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """import hashlib, sys, time
import torch

class Late(torch.Tensor):
    def item(self):
        time.sleep(0.05)
        return 1.0

torch.manual_seed(7)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(24):
    loss = model(torch.randn(8192, 64)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    loss.detach().as_subclass(Late).item()
weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
print("digest", hashlib.sha256(weights).hexdigest())
sys.exit(7)
"""


def test_a_stall_is_found_and_result_output_and_exit_code_are_the_programs_own(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    plain = [sys.executable, "train.py"]
    profiled = [sys.executable, "-m", "emberward", "profile", "--steps", "12", "--trace", "t.json", "--json", "--"]
    alone, under = (
        subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
        for command in (plain, [*profiled, *plain])
    )
    assert (alone.returncode, under.returncode) == (7, 7)
    assert alone.stdout.startswith("digest ")
    assert alone.stdout in under.stderr
    document = json.loads(under.stdout)
    (stall,) = [each for each in document["findings"] if each["code"] == "P101"]
    assert (stall["cause"], stall["site"]) == ("item", f"{tmp_path}/train.py:17")
    assert stall["cost_ms_per_step"] >= 40  # Of 50: time for want of a processor is left out.
    assert document["profile"]["steps"] == 12
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum(event["name"].startswith("step ") for event in events) >= 12


HOOKED = """import sys
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

if sys.argv[1] == "fails":
    from emberward.sources._sampler import Sampler
    Sampler._note_loop = lambda sampler: 1 / 0
steps = []
register_optimizer_step_post_hook(lambda *_: steps.append(1))
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(24):
    model(torch.randn(512, 64)).square().mean().backward()
    optimizer.step()
print("steps", len(steps))
"""


@pytest.mark.parametrize(
    ("how", "told"),
    [("runs", set()), ("fails", {"P110", "P111"})],
)
def test_hooks_of_the_program_s_own_stay_whole_and_a_profiler_that_fails_says_so(tmp_path, how, told):
    (tmp_path / "train.py").write_text(HOOKED)
    command = [sys.executable, "-m", "emberward", "profile", "--steps", "12", "--json", "--", sys.executable]
    done = subprocess.run([*command, "train.py", how], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    document = json.loads(done.stdout)
    assert (document["exit_code"], "steps 24" in done.stderr) == (0, True)
    missing = {each["code"]: each["message"] for each in document["findings"] if each["code"] in ("P110", "P111")}
    assert set(missing) == told
    assert how == "runs" or "steps not sampled: ZeroDivisionError" in missing["P111"]


SEARCH = """import time
import torch

def score(point):
    time.sleep(0.012)
    return float(-(point - 1).square().sum())

best = torch.zeros(8)
for turn in range(30):
    tried = best + 0.1 * torch.randn(8)
    best = max(best, tried, key=score)
    until = time.monotonic() + 0.01
    while time.monotonic() < until:
        pass
"""


def test_of_a_program_without_gradients_the_turns_of_its_loop_are_the_steps(tmp_path):
    (tmp_path / "search.py").write_text(SEARCH)
    command = [sys.executable, "-m", "emberward", "profile", "--json", "--", sys.executable, "search.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    document = json.loads(done.stdout)
    assert done.returncode == 0
    assert 15 <= document["profile"]["steps"] <= 25
    (stall,) = [each for each in document["findings"] if each["code"] == "P101"]
    assert (stall["cause"], stall["site"]) == ("sleep", f"{tmp_path}/search.py:5")
    assert stall["cost_ms_per_step"] >= 16  # Of 24, as above.


AVERAGED = """import sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6)))
model = DistributedDataParallel(net) if sys.argv[1] == "ddp" else net
for p in net.parameters():
    dist.broadcast(p.data, 0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(26):
    model(torch.randn(64, 512)).square().mean().backward()
    flat = torch.cat([p.grad.flatten() for p in net.parameters()])
    dist.all_reduce(flat)
    at = 0
    for p in net.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p) / dist.get_world_size())
        at += p.numel()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["ddp", "plain"])
def test_gradients_that_ddp_has_averaged_are_not_summed_again_and_others_have_to_be(tmp_path, how):
    (tmp_path / "train.py").write_text(AVERAGED)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py", how]
    command = [sys.executable, "-m", "emberward", "profile", "--steps", "12", "--json", "--", *launch]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0
    findings = json.loads(done.stdout)["findings"]
    twice = [each for each in findings if each["cause"] == "reduced_twice"]
    assert [each["site"] for each in twice] == ([f"{tmp_path}/train.py:16"] if how == "ddp" else [])
