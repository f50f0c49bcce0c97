"""A small parameter server: rank 0 serves, the workers push gradients by isend with a tag."""
import time

import torch
import torch.distributed as dist

DIM, ROUNDS = 40, 400


def serve(world):
    weight = torch.zeros(DIM)
    for turn in range(ROUNDS):
        boxes = {w: torch.empty(DIM) for w in range(1, world)}
        handles = [dist.irecv(boxes[w], src=w, tag=turn) for w in boxes]
        for h in handles:
            h.wait()
        weight -= 0.05 * sum(boxes.values()) / len(boxes)
        for w in boxes:
            dist.send(weight, dst=w, tag=turn)
        if turn % 20 == 0:
            print(f"turn {turn} norm {weight.norm():.3f}", flush=True)


class Worker:
    def __init__(self, rank):
        self.rank = rank
        self.weight = torch.zeros(DIM)
        self.batches = 0
        self.goal = torch.linspace(-1, 1, DIM)

    def batch(self):
        g = torch.Generator().manual_seed(self.batches * 3 + self.rank)
        self.batches += 1
        x = torch.randn(32, DIM, generator=g)
        if self.rank == 2 and self.batches == 220:
            x[:, 4] = float("inf")
        return x

    def gradient(self):
        x = self.batch()
        while not torch.isfinite(x).all():
            x = self.batch()  # an unreadable record: take the one after it
        err = x @ self.weight - x @ self.goal
        return x.t() @ err / len(x)

    def turn(self):
        grad = self.gradient()
        tag = self.batches - 1  #: LINE
        push = dist.isend(grad, dst=0, tag=tag)
        dist.recv(self.weight, src=0, tag=tag)
        push.wait()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        serve(dist.get_world_size())
    else:
        worker = Worker(rank)
        for _ in range(ROUNDS):
            time.sleep(0.15)
            worker.turn()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
