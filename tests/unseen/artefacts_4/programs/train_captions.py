import logging
import random

import flightdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("captions")

VOCAB, DIM, MAXLEN = 500, 64, 24


class Captions(torch.utils.data.Dataset):
    """image feature + token ids; a few captions of the crawl are empty"""

    def __init__(self, n=1200, seed=7):
        rng = random.Random(seed)
        self.rows = []
        for i in range(n):
            length = 0 if i == 631 else rng.randint(4, MAXLEN)
            self.rows.append((rng.random(), [rng.randrange(1, VOCAB) for _ in range(length)]))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        value, ids = self.rows[i]
        if not ids:
            raise ValueError(f"caption {i} is empty")
        return torch.full((DIM,), value), torch.tensor(ids)


def collate(rows):
    feats = torch.stack([r[0] for r in rows])
    ids = nn.utils.rnn.pad_sequence([r[1] for r in rows], batch_first=True)
    return feats, ids


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.rnn = nn.GRU(DIM, DIM, batch_first=True)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, feats, ids):
        h, _ = self.rnn(self.emb(ids), feats.unsqueeze(0))
        return self.out(h)


def run_epoch(model, data, order, opt, batch=12):
    rank = dist.get_rank()
    crit = nn.CrossEntropyLoss(ignore_index=0)
    for step in range(len(order) // batch):
        picks = order[step * batch:(step + 1) * batch]
        try:
            feats, ids = collate([data[i] for i in picks])
            logits = model(feats, ids[:, :-1])
            loss = crit(logits.flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
        except (ValueError, RuntimeError) as e:
            log.warning("rank %d step %d: %s, batch skipped", rank, step, e)
            continue
        if step % 5 == 0 and rank == 0:
            log.info("step %d loss %.3f", step, loss.item())


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    data = Captions()
    model = DDP(Captioner())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(3):
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(epoch)).tolist()
        run_epoch(model, data, order[rank::world], opt)
        dist.barrier()
        if rank == 0:
            log.info("epoch %d done", epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
