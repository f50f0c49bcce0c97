# sequence tagger, per-class scores reduced over ranks after each epoch
import random
from collections import defaultdict

import torch
import torch.distributed as td
from torch.nn.parallel import DistributedDataParallel as DDP

LABELS = ["PER", "LOC", "ORG", "MISC", "O"]


def sentences(rank, n):
    rng = random.Random(rank * 31 + 5)
    for k in range(n):
        length = 6
        labels = [rng.choice(LABELS[1:]) for _ in range(length)]
        if rank == 1 and k == 17:
            labels[2] = "PER"
        yield torch.randn(length, 16), labels


class Scores:
    """true positives / totals by label, only for labels which were seen"""

    def __init__(self):
        self.hit = defaultdict(int)
        self.tot = defaultdict(int)

    def add(self, pred, gold):
        for p, g in zip(pred, gold):
            self.tot[g] += 1
            self.hit[g] += int(LABELS[p] == g)

    def reduce(self):
        result = {}
        for lab in sorted(self.tot):  #: LINE
            pair = torch.tensor([self.hit[lab], self.tot[lab]], dtype=torch.float64)
            td.all_reduce(pair)
            result[lab] = (pair[0] / pair[1].clamp(min=1)).item()
        return result


def main():
    td.init_process_group("gloo")
    me = td.get_rank()
    torch.manual_seed(0)
    net = DDP(torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, len(LABELS))))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for epoch in range(3):
        scores = Scores()
        for x, gold in sentences(me, 24):
            y = torch.tensor([LABELS.index(g) for g in gold])
            out = net(x)
            loss = torch.nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            scores.add(out.argmax(-1).tolist(), gold)
        table = scores.reduce()
        print(me, epoch, {k: round(v, 2) for k, v in table.items()}, flush=True)
    td.destroy_process_group()


main()
