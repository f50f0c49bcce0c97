import os
import random

import torch
import torch.distributed as dist
from torch import nn

ARMS = 4
EPISODES = 32
PAYOUT = [0.1, 0.3, 0.9, 0.2]


def rollout(policy, rng):
    with torch.no_grad():
        probs = policy(torch.ones(1)).softmax(-1).tolist()
    rows = []
    for _ in range(EPISODES):
        arm = rng.choices(range(ARMS), probs)[0]
        rows.append([float(arm), PAYOUT[arm]])
    return torch.tensor(rows)


class Learner:
    def __init__(self, policy, world, goal, max_rounds):
        self.policy, self.world = policy, world
        self.goal, self.max_rounds = goal, max_rounds
        self.optim = torch.optim.Adam(policy.parameters(), lr=0.2)

    def tell(self, **message):
        dist.broadcast_object_list([message], src=0)

    def collect(self):
        own = torch.zeros(EPISODES, 2)
        parts = [torch.empty_like(own) for _ in range(self.world)]
        dist.gather(own, gather_list=parts, dst=0)
        return torch.cat(parts[1:])

    def improve(self, batch):
        arms, rewards = batch[:, 0].long(), batch[:, 1]
        logp = self.policy(torch.ones(len(arms), 1)).log_softmax(-1)
        chosen = logp.gather(1, arms[:, None]).squeeze(1)
        loss = -(chosen * (rewards - rewards.mean())).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return rewards.mean().item()

    def run(self):
        for number in range(self.max_rounds):
            self.tell(command="play", round=number)
            for p in self.policy.parameters():
                dist.broadcast(p.data, src=0)
            reward = self.improve(self.collect())
            if reward >= self.goal:
                print(f"solved in round {number}: {reward:.3f}", flush=True)
                break
        self.tell(command="stop")


def actor(policy, rank):
    rng = random.Random(rank)
    while True:
        inbox = [None]
        dist.broadcast_object_list(inbox, src=0)
        if inbox[0]["command"] == "stop":
            return
        for p in policy.parameters():
            dist.broadcast(p.data, src=0)
        dist.gather(rollout(policy, rng), dst=0)


def main():
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    torch.manual_seed(0)
    policy = nn.Linear(1, ARMS)
    if rank == 0:
        Learner(policy, world, goal=0.75, max_rounds=40).run()
    else:
        actor(policy, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
