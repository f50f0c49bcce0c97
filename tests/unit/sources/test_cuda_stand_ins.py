"""CUDA played by the CPU in an examined script: torch's own names and signatures, and what scripts do with them."""

import inspect
import json

import pytest
from unit.sources.examiner import warm_examiner


@pytest.fixture(scope="module")
def examiner():
    return warm_examiner()


def signatures(owner):
    """The signature of each public function, class and method of torch.cuda (or of `owner`) that has one."""
    found = {}
    for name, value in vars(owner).items():
        if name.startswith("_") or inspect.ismodule(value) or not (callable(value) or isinstance(value, classmethod)):
            continue
        try:
            found[name] = f"{value.__module__}.{value.__qualname__}{inspect.signature(value)}"
        except (AttributeError, TypeError, ValueError):
            continue
        if isinstance(value, type) and value.__module__ == "torch.cuda.streams":
            found |= {f"{name}.{method}": text for method, text in signatures(value).items()}
    return found


WALK = f"""
import inspect, json, pickle, sys, torch
{inspect.getsource(signatures)}
expected = json.load(open(sys.argv[1]))
found = signatures(torch.cuda)
others = {{name: (found.get(name), text) for name, text in expected.items() if found.get(name) != text}}
assert found.keys() == expected.keys() and not others, others
for name in ("memory_allocated", "Stream", "Event", "device", "get_device_name", "current_stream"):
    assert pickle.loads(pickle.dumps(getattr(torch.cuda, name))) is getattr(torch.cuda, name)
"""


def test_every_public_name_of_torch_cuda_keeps_its_signature_and_can_be_pickled(capsys, examiner, tmp_path):
    import torch

    expected = signatures(torch.cuda)
    assert len(expected) > 80 and "Event.elapsed_time" in expected and "Stream.wait_stream" in expected
    (tmp_path / "names.json").write_text(json.dumps(expected))
    script = tmp_path / "walk.py"
    script.write_text(WALK)
    code, answer = examiner.examine(capsys, script, 1, str(tmp_path / "names.json"))
    assert (code, answer["findings"]) == (0, [])


TRAINING = """
import os, torch, torch.distributed as dist, torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
assert torch.cuda.current_device() == local_rank and torch.cuda.device_count() == 2
with torch.cuda.device(0):
    assert torch.cuda.current_device() == 0
assert torch.cuda.current_device() == local_rank
properties = torch.cuda.get_device_properties(local_rank)
assert properties.total_memory // 2**30 == 64 and properties.multi_processor_count > 0
model = DistributedDataParallel(torch.nn.Linear(4, 4).cuda(), device_ids=[local_rank], output_device=local_rank)
optimizer = torch.optim.AdamW(model.parameters())
scaler = torch.amp.GradScaler("cuda")
side = torch.cuda.Stream(priority=-1)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
assert isinstance(side, torch.Stream) and isinstance(start, torch.Event) and start != end
for step in range(2):
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.nvtx.range_push("step")
    start.record()
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side != torch.cuda.default_stream()
        batch = torch.ones(2, 4).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(side)
    batch.record_stream(torch.cuda.current_stream())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        out = model(batch)
        sent = torch.empty(2, 4, dtype=torch.bfloat16, device="cuda")
        sent.copy_(out) if out.dtype is torch.bfloat16 else sys.exit("no autocast")
        loss = F.mse_loss(out.float(), batch)
    dist.all_reduce(sent)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    side.record_event(end)
    torch.cuda.synchronize(device=local_rank)
    assert end.query() and start.elapsed_time(end) >= 0
    torch.cuda.nvtx.range_pop()
    stats = torch.cuda.memory_stats()
    print(stats["allocation.all.peak"], torch.cuda.max_memory_allocated() / 2**30, torch.cuda.memory_summary())
    print(torch.cuda.utilization(), torch.cuda.mem_get_info()[0], torch.cuda.list_gpu_processes())
torch.cuda.set_rng_state(torch.cuda.get_rng_state())
mesh = init_device_mesh("cuda", (2,), mesh_dim_names=("dp",))
sharded = FullyShardedDataParallel(torch.nn.Linear(4, 4), device_id=torch.cuda.current_device())
sharded(batch).sum().backward()
torch.set_default_device("cuda")
dist.all_reduce(torch.ones(3))
dist.barrier(device_ids=[local_rank])
dist.destroy_process_group()
"""


def test_a_script_for_two_gpus_is_examined_to_its_end(capsys, examiner, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    code, answer = examiner.examine(capsys, script, 2)
    assert answer["findings"] == []
    assert (code, answer["proved"], answer["not_examined"], answer["num_steps"]) == (0, True, [], [2, 2])


LEFT_OUT = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
dist.all_reduce(torch.ones(1, device="cuda"))
{line}
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.parametrize(
    "line",
    ["torch.cuda.CUDAGraph()", "torch.Generator(device='cuda')", "torch.nn.SyncBatchNorm(2).cuda()(torch.ones(2, 2))"],
)
def test_what_the_cpu_cannot_play_is_left_out_and_never_a_crash(capsys, examiner, tmp_path, line):
    script = tmp_path / "left_out.py"
    script.write_text(LEFT_OUT.format(line=line))
    code, answer = examiner.examine(capsys, script, 2)
    assert (code, answer["proved"]) == (0, False)
    assert answer["not_examined"][0].startswith("what comes after left_out.py:5 on rank 0: CUDA is played by the CPU")


OWN = """
import torch, torch.distributed as dist
from emberward.sources.script import _driver
dist.init_process_group("nccl")
{plant}
try:
    {line}
except Exception as error:
    raise RuntimeError("no memory") from error
"""


@pytest.mark.parametrize(
    ("plant", "line", "whose"),
    [
        ("_driver._index = torch.cuda._utils._get_device_index", "torch.cuda.current_stream()", "ours"),
        ("", "torch.cuda.current_stream(1, 2)", "the script's"),
        ("", "torch.cuda.Event().elapsed_time(torch.cuda.Event())", "the script's"),
        ("", "torch.cuda.set_rng_state('no state')", "the script's"),
    ],
)
def test_an_error_in_a_stand_in_is_ours_and_a_wrong_call_of_it_the_scripts(
    capsys, examiner, tmp_path, plant, line, whose
):
    script = tmp_path / "fails.py"
    script.write_text(OWN.format(plant=plant, line=line))
    if whose == "ours":
        with pytest.raises(RuntimeError, match=r"was examined at fails\.py:9"):
            examiner.examine(capsys, script, 1)
    else:
        code, answer = examiner.examine(capsys, script, 1)
        assert (code, answer["findings"][0]["code"], answer["findings"][0]["site"]) == (1, "M109", "fails.py:9")
