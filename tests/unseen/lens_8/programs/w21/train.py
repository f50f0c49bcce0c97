"""Training with accelerate; loss, predictions and labels of all processes are gathered in each step."""
import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from pace import Pace

STEPS = 60
BATCH = 400


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    x = torch.randn(STEPS * BATCH * accelerator.num_processes, 200)
    y = x[:, :8].argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(200, 800), nn.ReLU(), nn.Linear(800, 800), nn.ReLU(),
                          nn.Linear(800, 800), nn.ReLU(), nn.Linear(800, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    right = seen = 0
    mean_loss = torch.zeros(())
    pace = Pace()
    for rows, labels in loader:
        logits = model(rows)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
        predicted, wanted = accelerator.gather_for_metrics((logits.argmax(1), labels))
        mean_loss += accelerator.gather(loss.detach()).mean()
        right += (predicted == wanted).sum().item()
        seen += len(wanted)
        pace.tick()
    accelerator.print(f"accuracy {right / seen:.4f} loss {mean_loss.item() / STEPS:.4f}")
    if accelerator.is_main_process:
        pace.report()
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
