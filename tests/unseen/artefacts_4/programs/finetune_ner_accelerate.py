"""Token tagging with accelerate; every process reads its own files."""
import sys
from pathlib import Path

import flightdump  # noqa: F401
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

DATA = Path(sys.argv[1])
TAGS, VOCAB, LENGTH = 9, 600, 32


class TaggedFiles(Dataset):
    def __init__(self, files):
        parts = [torch.load(f) for f in files]
        self.ids = torch.cat([p["ids"] for p in parts])
        self.tags = torch.cat([p["tags"] for p in parts])

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return self.ids[i], self.tags[i]


class Tagger(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, TAGS)

    def forward(self, ids):
        return self.out(self.rnn(self.emb(ids))[0])


def main():
    accelerator = Accelerator(cpu=True)
    rank, world = accelerator.process_index, accelerator.num_processes
    files = sorted(DATA.glob("part-*.pt"))[rank::world]
    train_set = TaggedFiles(files)
    print(f"process {rank}: {len(files)} files, {len(train_set)} sentences", flush=True)
    loader = DataLoader(train_set, batch_size=16, shuffle=True)

    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    loss_fn = nn.CrossEntropyLoss()

    for epoch in range(3):
        losses = []
        for ids, tags in loader:
            loss = loss_fn(model(ids).flatten(0, 1), tags.flatten())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        mean = accelerator.gather(torch.stack(losses).mean()).mean()
        accelerator.print(f"epoch {epoch} loss {mean.item():.4f}")

    accelerator.wait_for_everyone()
    accelerator.save_model(model, DATA.parent / "tagger")


if __name__ == "__main__":
    main()
