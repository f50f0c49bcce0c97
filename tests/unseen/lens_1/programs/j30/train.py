import copy
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Agent(nn.Module):
    def __init__(self, n_obs=64, width=2000, n_act=6):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_obs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.policy = nn.Linear(width, n_act)
        self.value = nn.Linear(width, 1)

    def forward(self, o):
        h = self.trunk(o)
        return self.policy(h), self.value(h).squeeze(-1)


class Learner:
    def __init__(self):
        self.agent = Agent()
        self.ddp = DDP(self.agent)
        self.opt = torch.optim.Adam(self.ddp.parameters(), lr=2e-4)
        self.good = None

    def snapshot(self):
        return copy.deepcopy(self.agent.policy.state_dict())

    def learn(self, obs, act, ret):
        logits, value = self.ddp(obs)
        adv = ret - value
        pg = -(logits.log_softmax(-1).gather(1, act[:, None]).squeeze(1) * adv.detach()).mean()
        loss = pg + 0.5 * adv.square().mean()
        self.good = self.snapshot()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.agent.parameters(), 0.5)
        self.opt.step()
        return loss


if __name__ == "__main__":
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    learner = Learner()
    steps = 24
    for step in range(steps):
        if step == 3:
            t0 = time.perf_counter()
        obs, act = torch.randn(16, 64), torch.randint(0, 6, (16,))
        loss = learner.learn(obs, act, torch.randn(16))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.3f} {(time.perf_counter() - t0) / (steps - 3) * 1e3:.2f} ms/step", flush=True)
    dist.destroy_process_group()
