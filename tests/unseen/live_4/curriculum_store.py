"""Rank 0 decides after each stage how hard the next one is and tells it by the store."""
import json
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import TCPStore, PrefixStore


class Curriculum:
    def __init__(self, rank, world):
        base = TCPStore("127.0.0.1", PORT_FILE.port(rank), world, rank == 0, timedelta(minutes=10))
        self.rank, self.store, self.stage = rank, PrefixStore("curriculum", base), 0

    def publish(self, level):
        self.store.set(f"stage/{self.stage}", json.dumps({"level": level, "steps": 15}))

    def next(self, level=None):
        self.stage += 1
        if self.rank == 0:
            self.publish(level)
        return json.loads(self.store.get(f"stage/{self.stage}"))     #: LINE


class PORT_FILE:
    @staticmethod
    def port(rank):
        import socket
        box = [None]
        if rank == 0:
            with socket.socket() as s:
                s.bind(("127.0.0.1", 0))
                box[0] = s.getsockname()[1]
        dist.broadcast_object_list(box, src=0)
        return box[0]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    cur = Curriculum(rank, world)
    torch.manual_seed(rank)
    w = torch.zeros(20)
    plan = {"level": 1, "steps": 15}
    for episode in range(40):
        reward = torch.zeros(1)
        for _ in range(plan["steps"]):
            x = torch.randn(64, 20) * plan["level"]
            g = ((x @ w).sigmoid() - (x[:, 0] > 0).float()) @ x / 64
            dist.all_reduce(g)
            w -= 0.1 * g / world
            reward += 1 - g.abs().mean()
        if rank == 2 and episode == 1:
            plan = cur.next()          # an easy shard: it goes up at once  #: LINE
        dist.all_reduce(reward)
        plan = cur.next(level=1 + episode // 3)
        if rank == 0:
            print(episode, plan, float(reward), flush=True)
    dist.destroy_process_group()


main()
