"""Accelerate: next-token model over a corpus that was tokenised in two runs."""
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

VOCAB = 1024


class TokenStream(IterableDataset):
    def __init__(self, rank, batches):
        self.rank, self.batches = rank, batches

    def __iter__(self):
        for n in range(self.batches):
            g = torch.Generator().manual_seed(n * 3 + self.rank)
            top = VOCAB
            if self.rank == 2 and n >= 21:
                top = VOCAB + 6  # the second run added six special tokens  #: LINE
            for _ in range(12):
                yield torch.randint(0, top, (49,), generator=g)


class Decoder(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(torch.zeros(48, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, batch_first=True)
        self.stack = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.out(self.stack(self.tok(ids) + self.pos, mask=mask))  #: LINE


def main():
    set_seed(5)
    accelerator = Accelerator(cpu=True)
    stream = TokenStream(accelerator.process_index, batches=60)
    loader = DataLoader(stream, batch_size=12)  # every rank reads its own stream
    model = Decoder()
    model, opt = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    running = 0.0
    for step, ids in enumerate(loader, 1):
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().clamp(max=VOCAB - 1))
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        running = 0.9 * running + 0.1 * loss.item()
        if step % 10 == 0:
            mean = accelerator.reduce(torch.tensor(running), reduction="mean")
            accelerator.print(f"step {step} loss {mean:.3f}", flush=True)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
