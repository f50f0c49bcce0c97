"""DDP over caption records read from a file per rank."""
import frdump  # noqa: F401
import json
import logging

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("captions")
WORDS, DIM = 500, 24


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(WORDS, DIM)
        self.out = nn.Linear(DIM, 10)

    def forward(self, ids, offsets):
        return self.out(self.bag(ids, offsets))


def pack(lines):
    ids, offsets, labels = [], [], []
    for line in lines:
        rec = json.loads(line)
        offsets.append(len(ids))
        ids.extend(rec["caption"])
        labels.append(rec["label"])
    return torch.tensor(ids), torch.tensor(offsets), torch.tensor(labels)


def train_step(ddp, opt, lines):
    ids, offsets, labels = pack(lines)
    loss = nn.functional.cross_entropy(ddp(ids, offsets), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(7)
    ddp = DDP(Encoder())
    opt = torch.optim.Adam(ddp.parameters(), lr=1e-2)
    with open(f"data/captions_{rank}.jsonl") as f:
        lines = f.read().splitlines()
    size, bad, losses = 10, 0, []
    for step in range(len(lines) // size):
        try:
            losses.append(train_step(ddp, opt, lines[step * size:(step + 1) * size]))
        except Exception as err:
            bad += 1
            log.warning("rank %d: step %d failed: %r", rank, step, err)
            continue
        if rank == 0 and step % 10 == 0:
            log.info("step %d loss %.3f", step, losses[-1])
    report = [None] * world
    dist.all_gather_object(report, {"bad": bad, "loss": sum(losses) / len(losses)})
    if rank == 0:
        log.info("report %s", report)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
