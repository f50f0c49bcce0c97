import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from config import Config
from encoder import Encoder


def main(cfg):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(Encoder(save_memory=cfg.save_memory))
    torch.manual_seed(10 + dist.get_rank())
    ids = torch.randint(2000, (cfg.batch * 8, cfg.length))
    topic = ids[:, 0] % 20
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    spent = []
    for step in range(cfg.steps):
        begin = time.perf_counter()
        rows = slice(step % 8 * cfg.batch, (step % 8 + 1) * cfg.batch)
        loss = torch.nn.functional.cross_entropy(model(ids[rows]), topic[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        spent.append((time.perf_counter() - begin) * 1e3)
    if dist.get_rank() == 0:
        spent = spent[3:]
        print(f"{statistics.median(spent):.2f} ms/step median, {statistics.mean(spent):.2f} ms/step")
    dist.destroy_process_group()


main(Config())
