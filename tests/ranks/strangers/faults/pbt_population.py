#: n=4 ranks=3 cause=different_root tier=error set=2
"""Population based training: every rank trains its own copy with its own
learning rate; every few steps all copies continue from the best one."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

EXPLOIT_EVERY = 7
VAL_SIZE = 100_000

# correct answers on the frozen validation replay, per exploit round and member
REPLAY = [
    [61204, 63890, 60011, 62145],
    [70950, 70122, 69433, 71871],
    [80007, 81251, 79412, 81260],
]


class Member:
    def __init__(self, rank):
        torch.manual_seed(42)
        self.rank = rank
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
        self.rng = random.Random(rank)
        self.lr = 10 ** self.rng.uniform(-3, -1)
        self.gen = torch.Generator().manual_seed(rank)

    def train_step(self):
        time.sleep(0.18)
        x = torch.randn(16, 8, generator=self.gen)
        y = x[:, :3].argmax(dim=1)
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in self.net.parameters():
                p.sub_(self.lr * p.grad)
        return loss.item()

    def accuracy(self, exploit_round):
        correct = REPLAY[exploit_round % len(REPLAY)][self.rank]
        return correct / VAL_SIZE

    def explore(self):
        self.lr *= self.rng.choice([0.8, 1.25])


def leaderboard(local_score, world):
    """Scores travel as half precision, this used to be a large table."""
    mine = torch.tensor([local_score], dtype=torch.float16)
    out = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(out, mine)
    scores = [float(t) for t in out]
    scores[dist.get_rank()] = local_score  # we know our own exactly
    return scores


def exploit(member, exploit_round, world):
    scores = leaderboard(member.accuracy(exploit_round), world)
    best = max(range(world), key=scores.__getitem__)
    state = {k: v.tolist() for k, v in member.net.state_dict().items()}
    payload = [{"lr": member.lr, "weights": state}]
    if best == 3 and exploit_round == 2:
        print("FREEZE", time.time(), flush=True)
    dist.broadcast_object_list(payload, src=best)  #: LINE
    member.lr = payload[0]["lr"]
    member.net.load_state_dict({k: torch.tensor(v) for k, v in payload[0]["weights"].items()})
    if member.rank != best:
        member.explore()
    return best, scores[best]


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    member = Member(rank)
    exploit_round = 0
    for step in range(1, 301):
        loss = member.train_step()
        running = torch.tensor([loss])
        dist.all_reduce(running)
        if step % EXPLOIT_EVERY == 0:
            best, score = exploit(member, exploit_round, world)
            exploit_round += 1
            if rank == 0:
                print(f"step {step}: member {best} wins with {score:.4f}, "
                      f"population loss {running.item() / world:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
