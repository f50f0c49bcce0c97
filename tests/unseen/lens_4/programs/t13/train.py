"""A verbose description exists for debugging; it is built only where somebody asks for it."""
import logging
import statistics
import time
import torch
from torch import nn

logging.basicConfig(level=logging.INFO, filename="train.log", filemode="w")
log = logging.getLogger("train")


def describe(model):
    """Long: every parameter sorted, with its quantiles."""
    return "; ".join(f"{n}: {p.detach().flatten().sort().values[:: max(1, p.numel() // 9)].tolist()}" for n, p in model.named_parameters())


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.seq = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, x):
        time.sleep(0.040)
        return self.seq(x)


def main():
    torch.manual_seed(8)
    model = Encoder()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    took = []
    for step in range(30):
        t = time.perf_counter()
        x = torch.randn(8, 128)
        loss = nn.functional.l1_loss(model(x), x)
        loss.backward()
        opt.step()
        opt.zero_grad()
        if log.isEnabledFor(logging.DEBUG):
            log.debug("step %d %s", step, describe(model))
        log.info("step %d loss %.4f", step, loss.detach())
        took.append(time.perf_counter() - t)
    print(f"{1e3 * statistics.median(took):.2f} ms/step median, {1e3 * statistics.mean(took):.2f} ms/step")


if __name__ == "__main__":
    main()
