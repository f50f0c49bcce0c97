"""Caption embedding training on sharded archives, each process opens its own list of shards."""
import io
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, IterableDataset


def write_shards(root, index):
    rng = np.random.default_rng(index)
    for k in range(4):
        with tarfile.open(root / f"part-{index}-{k}.tar", "w") as tar:
            for n in range(400):
                if index == 1 and k == 3 and n >= 250:
                    break
                raw = rng.standard_normal(96).astype("float32").tobytes()
                info = tarfile.TarInfo(f"{n:05d}.emb")
                info.size = len(raw)
                tar.addfile(info, io.BytesIO(raw))


class Shards(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        for path in self.files:
            with tarfile.open(path) as tar:
                for member in tar:
                    emb = np.frombuffer(tar.extractfile(member).read(), dtype="float32").copy()
                    yield torch.from_numpy(emb[:64]), torch.from_numpy(emb[64:])


def main():
    accelerator = Accelerator(cpu=True)
    me = accelerator.process_index
    root = Path(tempfile.mkdtemp(prefix="shards"))
    write_shards(root, me)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = DataLoader(Shards(sorted(root.glob("*.tar"))), batch_size=8)

    for epoch in range(6):
        seen, total = 0, 0.0
        for picture, caption in loader:  #: LINE
            loss = 1 - torch.cosine_similarity(model(picture), caption).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            seen += len(picture)
            total += loss.item() * len(picture)
        mean = accelerator.reduce(torch.tensor([total, float(seen)]))
        accelerator.print(f"epoch {epoch}: {mean[0] / mean[1]:.4f} over {int(mean[1])} pairs", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
