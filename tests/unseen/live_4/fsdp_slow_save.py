import os
import shutil
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.fsdp import fully_shard


class TapeWriter(dcp.FileSystemWriter):
    """a mounted archive that takes a while for each file; some machines have the longer way"""

    def write_data(self, plan, planner):
        wait = 25 + 10 * dist.get_rank()
        for chunk in range(wait):
            time.sleep(1)
        return super().write_data(plan, planner)


def make():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(36, 36), nn.SiLU()) for _ in range(4)), nn.Linear(36, 6))
    for part in model:
        fully_shard(part)
    return fully_shard(model)


def steps(model, opt, n):
    for _ in range(n):
        x = torch.randn(16, 36)
        loss = (model(x) - x[:, :6].sin()).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    model = make()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    box = [tempfile.mkdtemp(prefix="tape") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, src=0)
    print("before", round(steps(model, opt, 200), 4), flush=True)
    side = dist.new_group(backend="gloo")                    # the save has a thread and a group of its own
    m, o = get_state_dict(model, opt)
    writer = TapeWriter(os.path.join(box[0], "c1"))
    pending = dcp.async_save({"m": m, "o": o}, storage_writer=writer, process_group=side)
    print("meanwhile", round(steps(model, opt, 200), 4), flush=True)
    pending.result()
    print("after", round(steps(model, opt, 200), 4), flush=True)
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(box[0])
    dist.destroy_process_group()


main()
