import hashlib
import json
import tempfile
import time
from pathlib import Path

import torch
from accelerate import Accelerator, PartialState
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FOLDER = Path(tempfile.gettempdir()) / "vocab-cache-7c1"


def learn_merges(path, seconds=42):
    """Byte pair merges from a small corpus; goes on until the time is over."""
    words = [hashlib.sha1(str(i % 800).encode()).hexdigest()[:12] for i in range(6000)]
    seqs, merges, end = [list(w) for w in words], [], time.monotonic() + seconds
    while time.monotonic() < end:
        pairs = {}
        for s in seqs:
            for a, b in zip(s, s[1:]):
                pairs[a, b] = pairs.get((a, b), 0) + 1
        if not pairs:
            seqs = [list(w) for w in words]
            continue
        a, b = max(pairs, key=pairs.get)
        merges.append([a, b])
        for k, s in enumerate(seqs):
            out, i = [], 0
            while i < len(s):
                if i + 1 < len(s) and s[i] == a and s[i + 1] == b:
                    out.append(a + b)
                    i += 2
                else:
                    out.append(s[i])
                    i += 1
            seqs[k] = out
    path.write_text(json.dumps(merges[:200]))


def main():
    accelerator = Accelerator(cpu=True)
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / "merges.json"
    if accelerator.is_main_process:
        path.unlink(missing_ok=True)
    accelerator.wait_for_everyone()
    with PartialState().main_process_first():
        if not path.exists():
            learn_merges(path)
        merges = json.loads(path.read_text())
    accelerator.print(f"{len(merges)} merges, first {merges[0]}", flush=True)
    torch.manual_seed(0)
    vocab = 50 + len(merges)
    data = torch.randint(0, vocab, (1600, 13), generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Embedding(vocab, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, vocab))
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    model, opt, loader = accelerator.prepare(model, opt, DataLoader(TensorDataset(data), batch_size=8))
    for step, (ids,) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
        if step % 20 == 0:
            accelerator.print(f"step {step} loss {loss.item():.3f}", flush=True)
    accelerator.wait_for_everyone()
    accelerator.free_memory()
    del model, opt
    accelerator.end_training()


if __name__ == "__main__":
    main()
