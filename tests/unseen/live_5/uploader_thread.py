"""DDP fine-tuning of a text classifier; a thread ships the metrics in the background."""
import json
import os
import queue
import tempfile
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, BATCH, LEN, VOCAB = 500, 24, 32, 1000


class Uploader(threading.Thread):
    """Takes records from a queue and appends them to the run's table; flushes at the end."""

    def __init__(self, path):
        super().__init__(name="uploader")
        self.path, self.inbox = path, queue.Queue()

    def run(self):
        with open(self.path, "a") as f:
            while True:
                record = self.inbox.get()
                if record is None:
                    return
                f.write(json.dumps(record) + "\n")
                f.flush()

    def log(self, **record):
        self.inbox.put(record)

    def finish(self):
        self.inbox.put(None)
        self.join()


class TextNet(nn.Module):
    def __init__(self, dim=80):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, 8)

    def forward(self, ids):
        h = torch.relu(self.conv(self.emb(ids).transpose(1, 2)))  #: LINE
        return self.out(h.amax(2))


class Corpus:
    def __init__(self, rank):
        self.rank, self.g = rank, torch.Generator().manual_seed(rank)
        # words that were added by hand to the vocabulary of one annotator team
        self.added = {"<url>": VOCAB, "<mention>": VOCAB + 1} if rank == 2 else {}

    def batch(self, step):
        ids = torch.randint(0, VOCAB, (BATCH, LEN), generator=self.g)
        labels = ids[:, 0] % 8
        if self.added and step % 211 == 210:
            ids[3, 7] = self.added["<url>"]
        return ids, labels


def train(rank, world, uploader):
    torch.manual_seed(4)
    model = DDP(TextNet())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    corpus = Corpus(rank)
    for step in range(STEPS):
        ids, y = corpus.batch(step)
        logits = model(ids)  #: LINE
        loss = nn.functional.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        uploader.log(step=step, loss=loss.item())
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    folder = tempfile.mkdtemp(prefix="metrics-")
    uploader = Uploader(os.path.join(folder, f"rank{rank}.jsonl"))
    uploader.start()  #: LINE
    train(rank, world, uploader)
    uploader.finish()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
