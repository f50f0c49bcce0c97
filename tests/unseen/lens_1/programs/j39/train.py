import logging
import logging.handlers
import queue
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from collector import CollectorHandler, start_collector

log = logging.getLogger("job")
log.propagate = False
log.setLevel(logging.INFO)


def setup_logging():
    handler = CollectorHandler(start_collector(0.035))
    q = queue.SimpleQueue()
    log.addHandler(logging.handlers.QueueHandler(q))
    logging.handlers.QueueListener(q, handler).start()


class Autoencoder(nn.Module):
    def __init__(self, d=256, h=384):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.Tanh(), nn.Linear(h, 32))
        self.dec = nn.Sequential(nn.Linear(32, h), nn.Tanh(), nn.Linear(h, d))

    def forward(self, x):
        return self.dec(self.enc(x))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        setup_logging()
    model = nn.parallel.DistributedDataParallel(Autoencoder())
    opt = torch.optim.Adam(model.parameters())
    total = 32
    for step in range(total):
        if step == 2:
            mark = time.monotonic()
        x = torch.rand(96, 256)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0:
            log.info("step %d loss %.5f lr %g", step, float(loss.detach()), opt.param_groups[0]["lr"])
    if rank == 0:
        print("%.2f ms/step" % ((time.monotonic() - mark) * 1e3 / (total - 2)), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
