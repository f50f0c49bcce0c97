import os
import tempfile

import torch
from torch import nn

from steptime import StepTime

STEPS = 62
SAVE_EVERY = 1


class Lstm(nn.Module):
    def __init__(self, vocab=1200, dim=192):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, 256, batch_first=True)
        self.out = nn.Linear(256, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.embed(ids))
        return self.out(h)


def save(path, model, opt, step):
    torch.save({"step": step, "model": model.state_dict(), "opt": opt.state_dict()}, path + ".tmp")  #: LINE
    os.replace(path + ".tmp", path)


def main():
    torch.manual_seed(0)
    model = Lstm()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    clock = StepTime()
    with tempfile.TemporaryDirectory() as folder:
        for step in range(1, STEPS + 1):
            ids = torch.randint(0, 1200, (12, 33))
            logits = model(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % SAVE_EVERY == 0:
                save(os.path.join(folder, "last.pt"), model, opt, step)
            clock.tick()
    clock.report()


if __name__ == "__main__":
    main()
