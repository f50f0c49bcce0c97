import copy
import random
import statistics
import time

import torch
from torch.nn import functional as F

from game import Critic, Game
from replay import Replay


def act(critic, frames, explore=0.2):
    if random.random() < explore:
        return random.randrange(4)
    with torch.no_grad():
        return critic(torch.from_numpy(frames).float().div(255.0)[None]).argmax(1).item()


def play(critic, game, replay, moves):
    for _ in range(moves):
        action = act(critic, game.frames)
        before, reward, after = game.move(action)
        replay.add(before, action, reward, after)


def main(steps=60, moves=2):
    torch.manual_seed(0)
    random.seed(0)
    critic, game, replay = Critic(), Game(), Replay()
    slow = copy.deepcopy(critic).requires_grad_(False)
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-4)
    play(critic, game, replay, 200)
    replay.start()
    times = []
    for step in range(steps):
        began = time.perf_counter()
        frames, actions, rewards, after = replay.ready.get()
        play(critic, game, replay, moves)
        with torch.no_grad():
            target = rewards + 0.97 * slow(after).max(1).values
        loss = F.smooth_l1_loss(critic(frames).gather(1, actions[:, None]).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 29:
            slow.load_state_dict(critic.state_dict())
        times.append(1e3 * (time.perf_counter() - began))
    replay.close()
    print(f"loss {loss.item():.4f}, {len(replay.rows)} moves kept")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
