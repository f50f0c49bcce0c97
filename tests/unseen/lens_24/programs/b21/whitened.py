import torch


class Whitened(torch.optim.Optimizer):
    """Momentum, made orthogonal before it's used (Muon). For matrices with fewer rows than columns."""

    def __init__(self, weights, lr=0.01, momentum=0.9, rounds=5):
        super().__init__(weights, {"lr": lr, "momentum": momentum, "rounds": rounds})
        assert all(weight.shape[0] < weight.shape[1] for group in self.param_groups for weight in group["params"])

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight not in self.state:
                    self.state[weight]["mean"] = torch.zeros_like(weight)
                mean = self.state[weight]["mean"]
                mean.mul_(group["momentum"]).add_(weight.grad)
                weight.sub_(self.white(mean, group["rounds"]), alpha=group["lr"])

    @staticmethod
    def white(matrix, rounds):
        y = matrix / (matrix.norm() + 1e-7)
        for _ in range(rounds):
            square = y @ y.T
            y = torch.addmm(y, torch.addmm(square, square, square, beta=-4.775, alpha=2.0315), y, beta=3.4445)
        return y
