import copy
import random
import statistics
import time
import warnings

import torch
from torch.nn import functional as F

from qnet import QNet
from replay import Catch, ReplayMemory

warnings.filterwarnings("ignore")


def play(env, state, net, memory, epsilon, moves=4):
    for _ in range(moves):
        if random.random() < epsilon:
            action = random.randrange(3)
        else:
            with torch.no_grad():
                action = net(torch.from_numpy(state)[None]).argmax().item()
        following, reward, done = env.step(action)
        memory.push(state, action, reward, following, done)
        state = env.reset() if done else following
    return state


def learn(net, target, optimizer, memory, batch=64, gamma=0.98):
    states, actions, rewards, next_states, done = memory.sample(batch)
    with torch.no_grad():
        best = target(next_states).max(1).values
        wanted = rewards + gamma * best * ~done
    q = net(states).gather(1, actions[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main(steps=64):
    random.seed(0)
    torch.manual_seed(0)
    net, env, memory = QNet(), Catch(), ReplayMemory(2000)
    target = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4)
    state = play(env, env.reset(), net, memory, epsilon=1.0, moves=600)
    times = []
    for step in range(steps):
        start = time.perf_counter()
        state = play(env, state, net, memory, epsilon=0.2)
        loss = learn(net, target, optimizer, memory)
        if step % 16 == 0:
            target.load_state_dict(net.state_dict())
        times.append(1e3 * (time.perf_counter() - start))
    times = times[3:]
    print(f"loss {loss.item():.5f}")
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
