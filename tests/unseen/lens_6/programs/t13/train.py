"""Q-learning from a replay memory."""
import copy
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

from kernels import Core
from memory import ReplayMemory, Transition

STEPS = 60
BATCH = 256
WIDTH = 260


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.see, self.act = nn.Linear(WIDTH, 64), nn.Linear(64, 4)

    def forward(self, states):
        return self.act(Core.apply(torch.relu(self.see(states))))


def optimize(memory, policy, target, optimizer):
    batch = Transition(*zip(*memory.sample(BATCH)))
    states = torch.tensor(batch.state)  #: LINE
    next_states = torch.tensor(batch.next_state)
    actions = torch.tensor(batch.action).unsqueeze(1)
    rewards = torch.tensor(batch.reward)
    with torch.no_grad():
        wanted = rewards + 0.99 * target(next_states).max(1).values
    values = policy(states).gather(1, actions).squeeze(1)
    loss = F.smooth_l1_loss(values, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(policy.parameters(), 100)
    optimizer.step()


def main():
    torch.manual_seed(0)
    memory = ReplayMemory(2000, WIDTH)
    memory.fill(1500)
    policy = Agent()
    target = copy.deepcopy(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-4, amsgrad=True)
    times, last = [], time.perf_counter()
    for step in range(STEPS):
        optimize(memory, policy, target, optimizer)
        now = time.perf_counter()
        times.append((now - last) * 1000)
        last = now
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


if __name__ == "__main__":
    main()
