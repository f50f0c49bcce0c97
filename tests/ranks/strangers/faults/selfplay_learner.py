#: n=2 ranks=1 cause=cycle_credit|lock tier=error set=2
import queue
import time
from collections import namedtuple
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

Transition = namedtuple("Transition", "state move outcome")


class BoardGame:
    """A toy two-player game. Now and then a game drags on for ages."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.seed = seed
        self.games = 0

    def play(self, policy):
        self.games += 1
        plies = int(torch.randint(20, 60, (1,), generator=self.gen))
        if self.seed == 1 and self.games == 41:
            plies = 420  # shuffling pieces back and forth
            print("FREEZE", time.time(), flush=True)
        states = torch.randn(plies, 9, generator=self.gen)
        with torch.no_grad():
            moves = policy(states).argmax(dim=1)
        outcome = 1.0 if plies % 2 else -1.0
        for ply in range(plies):
            yield Transition(states[ply], int(moves[ply]), outcome)


class ExperienceBuffer:
    """Bounded, so that a slow learner pushes back on the actors.

    Originally filled by actor threads. With one rank per core acting and
    learning happen in turns now, the interface stayed the same."""

    def __init__(self, capacity=256):
        self._q = queue.Queue(maxsize=capacity)

    def add_game(self, transitions):
        for t in transitions:
            self._q.put(t)  #: LINE

    def drain(self):
        items = []
        while True:
            try:
                items.append(self._q.get_nowait())
            except queue.Empty:
                return items


class Learner:
    def __init__(self, world):
        torch.manual_seed(99)
        self.world = world
        self.policy = nn.Sequential(nn.Linear(9, 32), nn.ReLU(), nn.Linear(32, 9))
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=1e-3)

    def update(self, batch):
        states = torch.stack([t.state for t in batch])
        moves = torch.tensor([t.move for t in batch])
        outcomes = torch.tensor([t.outcome for t in batch])
        logp = torch.log_softmax(self.policy(states), dim=1)
        loss = -(logp[torch.arange(len(batch)), moves] * outcomes).mean()
        self.opt.zero_grad()
        loss.backward()
        flat = nn.utils.parameters_to_vector([p.grad for p in self.policy.parameters()])
        dist.all_reduce(flat)
        nn.utils.vector_to_parameters(
            flat / self.world, [p.grad for p in self.policy.parameters()]
        )
        self.opt.step()
        return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    learner = Learner(dist.get_world_size())
    game = BoardGame(seed=rank)
    buffer = ExperienceBuffer()

    for iteration in range(300):
        for _ in range(2):
            time.sleep(0.08)
            buffer.add_game(game.play(learner.policy))
        loss = learner.update(buffer.drain())
        if rank == 0 and iteration % 5 == 0:
            print(f"iteration {iteration}: loss {loss:+.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
