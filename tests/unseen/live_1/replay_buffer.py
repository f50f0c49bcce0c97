"""Actor/learner: each rank has an actor thread which fills a replay buffer."""
import threading
import time
from collections import deque

import torch
import torch.distributed as dist


class Replay:
    def __init__(self):
        self.items = deque(maxlen=512)
        self.filled = threading.Condition()

    def push_many(self, xs):
        with self.filled:
            self.items.extend(xs)
            self.filled.notify_all()

    def sample(self, n):
        with self.filled:
            return torch.stack([self.items[-1 - k] for k in range(n)])

    def await_fill(self):
        with self.filled:
            self.filled.wait()  #: LINE


class Actor(threading.Thread):
    def __init__(self, buf, episodes, speed):
        super().__init__(daemon=True, name="actor")
        self.buf, self.episodes, self.speed = buf, episodes, speed

    def run(self):
        for _ in range(self.episodes):
            time.sleep(self.speed)
            self.buf.push_many([torch.randn(6) for _ in range(64)])


def warm_policy(rank):
    """policy tables; the first rank builds a larger one"""
    rows = 3 if rank == 1 else 1
    for _ in range(rows):
        time.sleep(0.6)
    return torch.zeros(6, requires_grad=True)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    buf = Replay()
    for round_no in range(3):
        Actor(buf, episodes=1, speed=1.0).start()
        policy = warm_policy(rank)
        buf.await_fill()
        for it in range(15):
            batch = buf.sample(32)
            loss = -(batch @ policy).tanh().mean()
            loss.backward()
            dist.all_reduce(policy.grad)
            with torch.no_grad():
                policy -= 0.01 * policy.grad
                policy.grad = None
        print(f"rank {rank} finished round {round_no}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
