"""Trains a ranker and posts its curves to the dashboard."""
import json
import os
import urllib.request

import torch
import torch.distributed as dist
import torch.nn as nn

import flightrec  # noqa: F401

URL = os.environ.get("BOARD_URL", "http://board.internal:8080/api/points")


class Board:
    def __init__(self, url, run):
        self.url, self.run = url, run

    def post(self, step, **values):
        body = json.dumps({"run": self.run, "step": step, **values}).encode()
        req = urllib.request.Request(self.url, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(req) as answer:
            return json.load(answer)


def pairwise(score_a, score_b):
    return nn.functional.softplus(score_b - score_a).mean()


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    board = Board(URL, run="ranker-17")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 1001):
        a, b = torch.randn(24, 20, generator=g), torch.randn(24, 20, generator=g)
        swap = a.sum(1) < b.sum(1)
        a[swap], b[swap] = b[swap], a[swap].clone()
        loss = pairwise(net(a), net(b))
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        opt.step()
        if step % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            mean /= world
            if rank == 0:
                board.post(step, loss=mean.item(), lr=opt.param_groups[0]["lr"])
                print("step", step, "loss", round(mean.item(), 4), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
