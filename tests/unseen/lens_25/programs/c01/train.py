import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.tensorboard import SummaryWriter

from skies import CloudNet, skies


def main(steps=60, batch=32):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    patches, kinds = skies()
    net = CloudNet()
    model = DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, fused=True)
    torch.manual_seed(20 + rank)

    times = []
    with tempfile.TemporaryDirectory() as folder:
        board = SummaryWriter(folder) if rank == 0 else None
        began = time.perf_counter()
        for step in range(steps):
            picked = torch.randint(0, len(kinds), (batch,))
            loss = F.cross_entropy(model(patches[picked]), kinds[picked])
            optimizer.zero_grad()
            loss.backward()
            if board:
                board.add_histogram("gradients/head.bias", net.head.bias.grad, step, bins=16)
            optimizer.step()
            now = time.perf_counter()
            times.append(1e3 * (now - began))
            began = now
        if board:
            board.close()

    if rank == 0:
        print(f"loss {loss.item():.6f}")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
