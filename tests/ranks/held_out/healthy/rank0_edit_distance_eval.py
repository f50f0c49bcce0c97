#: n=4 ok exit=0
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


class SpeechModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(10, 20, batch_first=True)
        self.ctc = nn.Linear(20, 12)

    def forward(self, feats):
        h, _ = self.rnn(feats)
        return self.ctc(h).log_softmax(-1)


def load(step, rank):
    g = torch.Generator().manual_seed(step * 4 + rank)
    time.sleep(0.15)
    return torch.randn(3, 14, 10, generator=g), torch.randint(1, 12, (3, 5), generator=g)


def ctc_loss(logp, labels):
    n = logp.shape[0]
    return nn.functional.ctc_loss(
        logp.transpose(0, 1), labels, torch.full((n,), logp.shape[1]), torch.full((n,), labels.shape[1])
    )


@torch.no_grad()
def word_error_rate(model, seconds):
    end, errors, words, i = time.time() + seconds, 0, 0, 0
    while time.time() < end:
        feats, labels = torch.randn(3, 14, 10), torch.randint(1, 12, (3, 60))
        hyp = model(feats).argmax(-1).repeat(1, 4).tolist()
        for h, ref in zip(hyp, labels.tolist()):
            errors += edit_distance(h, ref)
            words += len(ref)
    return errors / words


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(SpeechModel())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    length = random.Random(time.time_ns()).uniform(10, 45)
    for step in range(1, 46):
        feats, labels = load(step, rank)
        loss = ctc_loss(model(feats), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 30:
            if rank == 0:
                print("wer", word_error_rate(model.module, length), flush=True)
            dist.barrier()
    dist.barrier()
    del model  # torch 2.13 may wait for ever where DDP is freed after its group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
