import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

PAD, BOS = 0, 1


class Captions(Dataset):
    """(image vector, caption length) -> token ids"""

    def __init__(self, lengths, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.lengths = list(lengths)
        self.images = torch.randn(len(self.lengths), 8, generator=g)

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, i):
        return self.images[i], torch.tensor(self.lengths[i])


class Captioner(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.img = nn.Linear(8, dim)
        self.emb = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)

    def forward(self, image, steps):
        h = torch.tanh(self.img(image))
        tok = torch.full((image.size(0),), BOS)
        logits = []
        for _ in range(steps):
            h = self.cell(self.emb(tok), h)
            step = self.out(h)
            tok = step.argmax(-1)
            logits.append(step)
        return torch.stack(logits, 1)


@torch.no_grad()
def generate(model, image, lengths):
    tokens = model(image, int(lengths.max())).argmax(-1)
    keep = torch.arange(tokens.size(1))[None] < lengths[:, None]
    return tokens.masked_fill(~keep, PAD)


def main():
    set_seed(5)
    accelerator = Accelerator(cpu=True)
    n = accelerator.num_processes

    train = DataLoader(Captions([5] * 48, seed=1), batch_size=4, shuffle=True)
    valid_lengths = [6, 5, 6, 4] * (2 * n) + [4, 6, 5, 6] + [4, 6, 9, 6] + [6, 6, 5, 4] * (n - 2)
    valid = DataLoader(Captions(valid_lengths, seed=2), batch_size=4)

    model = Captioner()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)

    model.train()
    for step, (image, length) in enumerate(train):
        logits = model(image, int(length.max()))
        target = (image[:, :5] > 0).long() + 2
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"trained {step + 1} steps, loss {loss.item():.3f}")

    model.eval()
    texts = []
    for image, length in valid:
        tokens = generate(accelerator.unwrap_model(model), image, length)
        tokens = accelerator.pad_across_processes(tokens, dim=1, pad_index=PAD)
        tokens = accelerator.gather(tokens)
        texts.extend(row[row != PAD].tolist() for row in tokens)
    accelerator.print(f"{len(texts)} captions, {sum(map(len, texts))} tokens")
    accelerator.end_training()


if __name__ == "__main__":
    main()
