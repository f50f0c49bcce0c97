#: n=4 ranks=1 cause=different_op tier=error set=3
import contextlib
import math
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUM = 2


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 12, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.rnn(x)[0]).log_softmax(-1)


class Utterances:
    def __init__(self, rank):
        self.rank = rank
        self.gen = torch.Generator().manual_seed(rank + 31)
        self.served = 0

    def next(self):
        time.sleep(0.08)
        self.served += 1
        feats = torch.randn(2, 14, 6, generator=self.gen)
        text = torch.randint(1, 5, (2, 4), generator=self.gen)
        lens = torch.tensor([4, 4])
        if self.rank == 1 and self.served in (39, 40):
            lens = torch.tensor([0, 0])     # silence only
        return feats, text, lens


class Meter:
    """Collects word error rates; summarises over ranks."""

    def __init__(self):
        self.errs, self.words = 0.0, 0

    def update(self, logp, text, lens):
        hyp = logp.argmax(-1)[:, :4]
        for h, t, n in zip(hyp, text, lens.tolist()):
            self.errs += (h[:n] != t[:n]).sum().item()
            self.words += n

    def value(self):
        return self.errs / self.words if self.words else math.nan

    def summary(self):
        v = self.value()
        packed = torch.tensor([self.errs, float(self.words)])
        if math.isnan(v):
            # nothing measured here: just hand in the zeros, the result is of no use to us
            print("FREEZE", time.time(), flush=True)
            dist.reduce(packed, dst=0)  #: LINE
        else:
            dist.all_reduce(packed)
        self.errs, self.words = 0.0, 0
        return (packed[0] / packed[1]).item()


def optimizer_step(model, opt, data, meter):
    opt.zero_grad()
    for i in range(ACCUM):
        last = i == ACCUM - 1
        with contextlib.nullcontext() if last else model.no_sync():
            feats, text, lens = data.next()
            logp = model(feats)
            loss = nn.functional.ctc_loss(
                logp.transpose(0, 1), text, torch.tensor([14, 14]), lens, zero_infinity=True)
            (loss / ACCUM).backward()
            meter.update(logp.detach(), text, lens)
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    torch.manual_seed(2)
    model = DistributedDataParallel(Acoustic())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    data, meter = Utterances(dist.get_rank()), Meter()
    for step in range(60):
        loss = optimizer_step(model, opt, data, meter)
        wer = meter.summary()
        if dist.get_rank() == 0 and step % 5 == 0:
            print(f"step={step} loss={loss:.3f} wer={wer:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
