"""After some training each rank plays its own evaluation games for a long time."""
import time

import torch
import torch.distributed as dist

ACTIONS = 6


class Bandit:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.pay = torch.rand(ACTIONS, generator=self.g)

    def pull(self, action):
        return float(torch.rand((), generator=self.g) < self.pay[action])


def train(policy, rank, steps):
    for step in range(steps):
        bandit = Bandit(step * 5 + rank)
        grad = torch.zeros(ACTIONS)
        for _ in range(20):
            action = int(torch.multinomial(policy.softmax(0), 1, generator=bandit.g))
            grad[action] += bandit.pull(action)
        dist.all_reduce(grad)
        policy += 0.001 * grad
        time.sleep(0.1)


def evaluate(policy, rank, seconds):
    begin, games, won = time.monotonic(), 0, 0.0
    while time.monotonic() - begin < seconds:
        bandit = Bandit(games * 11 + rank)
        won += bandit.pull(int(policy.argmax()))
        games += 1
        time.sleep(0.02)
    return torch.tensor([won, float(games)])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    policy = torch.zeros(ACTIONS)
    train(policy, rank, 30)
    if rank == 0:
        print("evaluation begins", flush=True)
    result = evaluate(policy, rank, 42 + 2 * rank)
    dist.all_reduce(result)
    if rank == 0:
        print(f"won {result[0]:.0f} of {result[1]:.0f}", flush=True)
    train(policy, rank, 20)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
