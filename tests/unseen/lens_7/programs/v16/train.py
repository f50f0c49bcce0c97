import torch
from torch import nn

from steptime import StepTime

STEPS = 62


def build(width=896):
    layers = [nn.Linear(256, width), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, 32))


def broken(model):
    for name, p in model.named_parameters():
        if not torch.isfinite(p).all() or not torch.isfinite(p.grad).all():  #: LINE
            print(f"{name} is not finite")
            return True
    return False


def main():
    torch.manual_seed(0)
    model = build()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    clock = StepTime()
    skipped = 0
    for step in range(STEPS):
        x, y = torch.randn(48, 256), torch.randint(0, 32, (48,))
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        total = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if broken(model):
            skipped += 1
        else:
            opt.step()
        clock.tick()
    print(f"skipped {skipped}, last norm {total.item():.3f}")
    clock.report()


if __name__ == "__main__":
    main()
