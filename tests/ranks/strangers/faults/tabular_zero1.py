#: n=4 ranks=2 cause=swallowed_exception|skipped_collective tier=error set=2
# Tabular regression with optimizer-state sharding (ZeRO stage 1 done by hand).
import logging
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

log = logging.getLogger("zero1")
N_FEATURES = 12


class CsvShard:
    """Streams text rows, the way they come out of the warehouse export."""

    def __init__(self, rank, rows_per_batch=16):
        self.rank = rank
        self.rows = rows_per_batch
        self.gen = torch.Generator().manual_seed(100 + rank)

    def __iter__(self):
        batch_no = 0
        while True:
            time.sleep(0.12)
            block = torch.randn(self.rows, N_FEATURES + 1, generator=self.gen)
            lines = [[f"{v:.5f}" for v in row] for row in block.tolist()]
            if batch_no == 22 and self.rank == 2:
                lines[5][3] = "n/a"
            yield lines
            batch_no += 1


def parse(lines):
    values = torch.tensor([[float(cell) for cell in row] for row in lines])
    return values[:, :N_FEATURES], values[:, N_FEATURES:]


class ZeroOneTrainer:
    def __init__(self, rank, world):
        torch.manual_seed(7)
        self.rank, self.world = rank, world
        self.net = nn.Sequential(nn.Linear(N_FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
        self.params = list(self.net.parameters())
        flat = parameters_to_vector(self.params).detach()
        self.numel = flat.numel()
        self.padding = -self.numel % world
        shard_len = (self.numel + self.padding) // world
        self.momentum = torch.zeros(shard_len)  # only our shard of the state

    def padded(self, vec):
        return torch.cat([vec, vec.new_zeros(self.padding)])

    def step(self, lines, lr):
        x, y = parse(lines)
        loss = nn.functional.mse_loss(self.net(x), y)
        grads = torch.autograd.grad(loss, self.params)
        flat_grad = self.padded(torch.cat([g.reshape(-1) for g in grads]))

        shard_grad = torch.empty_like(self.momentum)
        dist.reduce_scatter_tensor(shard_grad, flat_grad)
        self.momentum.mul_(0.9).add_(shard_grad / self.world)

        weights = self.padded(parameters_to_vector(self.params).detach())
        mine = weights.chunk(self.world)[self.rank] - lr * self.momentum
        dist.all_gather_into_tensor(weights, mine.contiguous())
        vector_to_parameters(weights[: self.numel].clone(), self.params)
        return loss.item()


def scheduled_lr(step, recent):
    """Rank 0 owns the schedule (it sees the validation curve); others follow."""
    lr = torch.tensor([0.01 * (0.99 ** step)])
    if dist.get_rank() == 0 and recent and recent[-1] > 10.0:
        lr *= 0.5
    dist.broadcast(lr, src=0)  #: LINE
    return lr.item()


def main():
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    trainer = ZeroOneTrainer(rank, dist.get_world_size())
    recent, lr = [], 0.01
    for step, lines in enumerate(CsvShard(rank)):
        if step >= 400:
            break
        try:
            recent.append(trainer.step(lines, lr))
        except ValueError as err:
            # the export has a few broken cells, not worth dying for
            log.warning("rank %d: skipping batch %d (%s)", rank, step, err)
            print("FREEZE", time.time(), flush=True)
        lr = scheduled_lr(step, recent)
        if rank == 0 and step % 10 == 0:
            log.info("step %d loss %.4f lr %.5f", step, recent[-1], lr)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
