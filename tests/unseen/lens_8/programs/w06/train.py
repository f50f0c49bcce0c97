"""A word model with accelerate; accuracy and confidence are followed over all processes."""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from metrics import accuracy, confidence
from pace import Pace

STEPS = 62
BATCH, WORDS, CONTEXT = 384, 4000, 6


class WordModel(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.hidden = nn.Linear(CONTEXT * width, 128)
        self.out = nn.Linear(128, WORDS)

    def forward(self, ids):
        return self.out(torch.relu(self.hidden(self.embed(ids).flatten(1))))


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    ids = torch.randint(0, WORDS, (STEPS * BATCH * accelerator.num_processes, CONTEXT))
    loader = DataLoader(TensorDataset(ids, ids[:, 0]), batch_size=BATCH, shuffle=True,
                        collate_fn=lambda rows: tuple(map(torch.stack, zip(*rows))))
    model = WordModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    seen = sure = 0.0
    pace = Pace()
    for context, target in loader:
        logits = model(context)
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        logits = logits.detach()
        seen += accuracy(accelerator, logits, target)
        sure += confidence(accelerator, logits, target)  #: LINE
        pace.tick()
    accelerator.print(f"accuracy {seen / STEPS:.4f} confidence {sure / STEPS:.4f}")
    if accelerator.is_main_process:
        pace.report()
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
