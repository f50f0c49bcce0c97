"""GPipe over three stages with torch.distributed.pipelining; one schedule for training, one for evaluation."""
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

D = 24


class Piece(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D))
        self.last = last

    def forward(self, x):
        y = self.net(x)
        return y if self.last else torch.relu(y)


def pick_chunks(rank, world, batch):
    """micro batches that fit in the memory of the stage"""
    budget = 1000 if rank < world - 1 else 520
    per_row = D * 4
    n = 2
    while batch // n * per_row > budget:
        n *= 2
    return n


class Engine:
    def __init__(self, batch):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(self.rank)
        self.piece = Piece(self.rank == self.world - 1)
        stage = PipelineStage(self.piece, self.rank, self.world, torch.device("cpu"))
        n = pick_chunks(self.rank, self.world, batch)  #: LINE
        print(f"stage {self.rank}: {n} micro batches", flush=True)
        self.sched = ScheduleGPipe(stage, n_microbatches=n, loss_fn=nn.functional.mse_loss)
        self.opt = torch.optim.SGD(self.piece.parameters(), 0.01)
        self.batch = batch

    def step(self):
        x = torch.randn(self.batch, D)
        losses = []
        if self.rank == 0:
            self.sched.step(x)
        elif self.rank == self.world - 1:
            self.sched.step(target=torch.zeros(self.batch, D), losses=losses)
        else:
            self.sched.step()
        self.opt.step()
        self.opt.zero_grad()
        return losses


def main():
    dist.init_process_group("gloo")
    eng = Engine(batch=32)
    for it in range(6):
        losses = eng.step()
        if losses:
            print(it, torch.stack(losses).mean().item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
