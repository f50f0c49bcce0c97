import logging
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.fsdp import fully_shard

logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
EVERY_SECONDS = 8.0


class Saver:
    def __init__(self, root):
        self.root, self.last = root, time.monotonic()

    def maybe(self, step, model, opt):
        if time.monotonic() - self.last < EVERY_SECONDS:  #: LINE
            return
        self.last = time.monotonic()
        state = {"model": model.state_dict(), "step": torch.tensor(step)}
        dcp.save(state, checkpoint_id=os.path.join(self.root, f"step{step}"))
        logging.info("saving step %d", step)


def read_shard(rank):
    if rank == 1:
        time.sleep(0.5)          # colder disk
    return torch.randn(512, 40)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    root = [tempfile.mkdtemp()]
    dist.broadcast_object_list(root, src=0)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(40, 80), nn.Tanh(), nn.Linear(80, 40))
    for m in (model[0], model[2], model):
        fully_shard(m)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    dist.barrier()
    data = read_shard(rank)
    saver = Saver(root[0])
    for step in range(10000):
        x = data[torch.randint(0, 512, (16,))]
        loss = (model(x) - x).pow(2).mean()  #: LINE
        loss.backward()
        opt.step()
        opt.zero_grad()
        saver.maybe(step, model, opt)
        time.sleep(0.02)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
