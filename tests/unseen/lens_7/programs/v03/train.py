import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from metrics import Confusion
from steptime import StepTime

STEPS = 62
TAGS = 9


class Tagger(nn.Module):
    def __init__(self, vocab=2000, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 4, dim * 4, dropout=0.1, batch_first=True)
        self.body = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(dim, TAGS)

    def forward(self, ids):
        return self.out(self.body(self.embed(ids)))


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    n = 2 * 56 * (STEPS + 1)
    data = TensorDataset(torch.randint(0, 2000, (n, 48)), torch.randint(0, TAGS, (n, 48)))
    loader = DataLoader(data, batch_size=56, shuffle=True)
    model = Tagger()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    seen = Confusion(TAGS)
    clock = StepTime()
    for step, (ids, tags) in enumerate(loader):
        if step == STEPS:
            break
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
        seen.update(logits.argmax(-1), tags)
        clock.tick()
    accelerator.print(f"train accuracy {seen.accuracy():.3f}")
    if accelerator.is_main_process:
        clock.report()
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
