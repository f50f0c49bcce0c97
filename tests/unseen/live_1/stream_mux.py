"""Asyncio front end that merges token streams for each rank."""
import asyncio
import random

import torch
import torch.distributed as dist

STREAMS = 3


class Stream:
    def __init__(self, name, n, seed):
        self.name, self.n = name, n
        self.rng = random.Random(seed)
        self.out = asyncio.Queue()

    async def produce(self):
        for _ in range(self.n):
            await asyncio.sleep(0.001)
            await self.out.put(self.rng.randrange(100))
        await self.out.put(None)


class Mux:
    def __init__(self, streams):
        self.streams = streams

    async def batch(self, size):
        rows = []
        while len(rows) < size:
            for s in self.streams:
                tok = await s.out.get()  #: LINE
                rows.append(0 if tok is None else tok)
        return torch.tensor(rows[:size])


def lengths(rank):
    return [400] * STREAMS if rank != 2 else [400, 400, 120]


async def run(rank):
    streams = [Stream(f"s{k}", n, rank * 10 + k) for k, n in enumerate(lengths(rank))]
    tasks = [asyncio.create_task(s.produce()) for s in streams]
    mux = Mux(streams)
    emb = torch.nn.Embedding(100, 8)
    for it in range(36):
        ids = await mux.batch(30)
        emb(ids).pow(2).mean().backward()
        dist.all_reduce(emb.weight.grad)
        emb.weight.grad = None
        if rank == 0:
            print("it", it, flush=True)
    for t in tasks:
        t.cancel()


def main():
    dist.init_process_group("gloo")
    asyncio.run(run(dist.get_rank()))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
