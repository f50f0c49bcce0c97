import torch


def orthogonal(slope, rounds=5):
    """The nearest orthogonal matrix, roughly, by Newton and Schulz."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = slope / (slope.norm() + 1e-7)
    for _ in range(rounds):
        gram = x @ x.T  #: LINE
        x = a * x + torch.addmm(gram, gram, gram, beta=b, alpha=c) @ x
    return x


class Muon(torch.optim.Optimizer):
    def __init__(self, weights, lr=0.02, momentum=0.95):
        super().__init__(weights, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["speed"] = torch.zeros_like(weight)
                speed = state["speed"].lerp_(weight.grad, 1 - group["momentum"])
                way = orthogonal(weight.grad.lerp(speed, group["momentum"]))
                stretch = max(1, weight.shape[0] / weight.shape[1]) ** 0.5
                weight.add_(way, alpha=-group["lr"] * stretch)
