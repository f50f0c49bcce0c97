"""Dense prediction with DDP on 2 ranks; once, a report of all predictions was drawn at the end of an epoch."""
import argparse
import statistics
import time
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 1)

    def forward(self, x):
        time.sleep(0.040)
        return self.conv(x)


def collect(pred):
    """Predictions of all ranks, in order."""
    pred = pred.detach().contiguous()
    out = torch.empty((dist.get_world_size() * pred.shape[0], *pred.shape[1:]))
    dist.all_gather_into_tensor(out, pred)  #: LINE
    return out


def step(model, opt, x, y, report=None):
    pred = model(x)
    everything = collect(pred)
    loss = (pred - y).abs().mean()
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    if report is not None:
        report.append(everything)
    return loss.detach()


def main(args):
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DDP(Dense())
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = torch.randn(8, 2, 192, 256), torch.randn(8, 4, 192, 256)
    took = []
    for _ in range(args.steps):
        t = time.perf_counter()
        step(model, opt, x, y, report=[] if args.report else None)
        took.append(time.perf_counter() - t)
    if dist.get_rank() == 0:
        print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    cli = argparse.ArgumentParser()
    cli.add_argument("--steps", type=int, default=30)
    cli.add_argument("--report", action="store_true")
    main(cli.parse_args())
