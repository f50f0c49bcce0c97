"""Speech features -> small GRU, DDP. Clips come as dicts from a manifest."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

RATES = {8000: 1, 16000: 2, 44100: 5}


def manifest(n=120):
    rows = []
    for i in range(n):
        rate = [8000, 16000, 44100][i % 3]
        if i == 76:
            rate = 48000
        rows.append({"id": i, "rate": rate, "sec": 1 + i % 4})
    return rows


class Clips(Dataset):
    def __init__(self):
        self.rows = manifest()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        row = self.rows[i]
        step = RATES[row["rate"]]  #: LINE
        g = torch.Generator().manual_seed(i)
        wave = torch.randn(320 * step, generator=g)[::step]
        return wave.reshape(20, 16), row["sec"] - 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.GRU(16, 24, batch_first=True)
        self.head = torch.nn.Linear(24, 4)

    def forward(self, x):
        _, h = self.rnn(x)
        return self.head(h[-1])


def main():
    dist.init_process_group("gloo")
    ds = Clips()
    loader = DataLoader(ds, batch_size=5, sampler=DistributedSampler(ds, shuffle=False))
    torch.manual_seed(0)
    net = DDP(Net())
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(2):
        for it, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if dist.get_rank() == 0:
                print(epoch, it, round(loss.item(), 3), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
