"""Bandit for the order of news items: policy gradient, keeps the best policy seen."""
import time

import torch

from engine import Engine

ARMS, FEATURES, ROUNDS = 12, 20, 30
torch.set_num_threads(1)


class Policy:
    def __init__(self, seed):
        g = torch.Generator().manual_seed(seed)
        self.w = (torch.randn(FEATURES, ARMS, generator=g) * 0.1).requires_grad_()
        self.truth = torch.randn(FEATURES, ARMS, generator=g)
        self.g = g

    def improve(self, visitors, rate=0.3):
        logits = visitors @ self.w
        choice = torch.multinomial(logits.softmax(-1), 1, generator=self.g)
        reward = (visitors @ self.truth).gather(1, choice).detach()
        loss = -(logits.log_softmax(-1).gather(1, choice) * (reward - reward.mean())).mean()
        loss.backward()
        with torch.no_grad():
            self.w -= rate * self.w.grad
            self.w.grad = None
        return -reward.mean()


def visitors(rounds):
    g = torch.Generator().manual_seed(9)
    for number in range(rounds):
        time.sleep(0.026)                        # the click log answers
        yield number, torch.randn(64, FEATURES, generator=g)


class KeepBest:
    def __init__(self, policy):
        self.policy = policy
        self.best = torch.tensor(1e9)
        self.kept = policy.w.detach().clone()

    def __call__(self, regret):
        if regret < self.best:  #: LINE
            self.best = regret
            self.kept = self.policy.w.detach().clone()


def main():
    engine = Engine()
    policy = Policy(1)
    hooks = [KeepBest(policy)]
    t0 = time.perf_counter()
    for number, crowd in visitors(ROUNDS):
        regret = engine.put(policy.improve(crowd), seconds=0.034)
        for hook in hooks:
            hook(regret)
    engine.finish()
    ms = 1e3 * (time.perf_counter() - t0) / ROUNDS
    print("best regret", round(float(hooks[0].best), 3))
    print(f"{ms:.2f} ms/step")


if __name__ == "__main__":
    main()
