import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

from buckets import BucketSampler, Scorer


def essays(count=1500, seed=0):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(16, 65, (count,), generator=g).tolist()
    return [(torch.randint(1, 2000, (n,), generator=g), n / 64) for n in lengths]


def collate(rows):
    return pad_sequence([ids for ids, _ in rows], batch_first=True), torch.tensor([score for _, score in rows])


def main(steps=60, batch=12):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = essays()
    sampler = BucketSampler([len(ids) for ids, _ in data], batch, rank, world)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    model = DDP(Scorer())
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    times, step, sums = [], 0, torch.zeros(2)
    with tempfile.TemporaryDirectory() as folder:
        log = open(os.path.join(folder, f"loss.{rank}.csv"), "w")
        begin = time.perf_counter()
        while step < steps:
            for ids, score in loader:
                loss = torch.nn.functional.mse_loss(model(ids), score)
                opt.zero_grad()
                loss.backward()
                opt.step()
                sums += torch.stack([loss.detach() * len(ids), torch.tensor(float(len(ids)))])
                now = time.perf_counter()
                times.append(1e3 * (now - begin))
                begin = now
                step += 1
                if step == steps:
                    break
        log.close()
    if rank == 0:
        times = times[3:]
        print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")
    dist.destroy_process_group()


main()
