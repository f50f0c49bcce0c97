#: n=4 ranks=* cause=cycle_credit|cycle_p2p tier=error
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

DATA, CREDIT = 100, 200
WINDOW = 4
FRAMES = 8


class Outbound:
    """Sends frames downstream; at most WINDOW of them may be unacknowledged."""

    def __init__(self, peer):
        self.peer, self.open = peer, WINDOW

    def push(self, frame):
        while self.open == 0:
            got = torch.zeros(1, dtype=torch.int64)
            dist.recv(got, self.peer, tag=CREDIT)  #: LINE
            self.open += int(got)
        self.open -= 1
        dist.send(frame, self.peer, tag=DATA)

    def settle(self):
        while self.open < WINDOW:
            got = torch.zeros(1, dtype=torch.int64)
            dist.recv(got, self.peer, tag=CREDIT)
            self.open += int(got)


class Inbound:
    def __init__(self, peer, shape, ack_every=2):
        self.peer, self.shape, self.ack_every = peer, shape, ack_every
        self.pending = 0
        self.acks = []

    def pull(self):
        frame = torch.empty(self.shape)
        dist.recv(frame, self.peer, tag=DATA)  #: LINE
        self.pending += 1
        if self.pending == self.ack_every:
            self.flush()
        return frame

    def flush(self):
        if self.pending:
            note = torch.tensor([self.pending])
            self.acks.append((note, dist.isend(note, self.peer, tag=CREDIT)))
            self.pending = 0

    def drain(self):
        for _, work in self.acks:
            work.wait()
        self.acks.clear()


class EncoderStage:
    def __init__(self, rank, world):
        torch.manual_seed(rank)
        self.rank = rank
        self.conv = nn.Conv1d(4, 4, 3, padding=1)
        self.source = rank == 0
        self.inbound = None if self.source else Inbound(rank - 1, (2, 4, 16))
        self.outbound = None if rank == world - 1 else Outbound(rank + 1)

    @torch.no_grad()
    def clip(self):
        energy = 0.0
        for _ in range(FRAMES):
            frame = torch.randn(2, 4, 16) if self.source else self.inbound.pull()
            time.sleep(0.015)
            frame = torch.relu(self.conv(frame))
            energy += frame.mean().item()
            if self.outbound:
                self.outbound.push(frame)
        if self.inbound:
            self.inbound.flush()
        if self.outbound:
            self.outbound.settle()
        if self.inbound:
            self.inbound.drain()
        return energy / FRAMES


def coalesce_acks(stage, clip_index, when):
    if stage.rank == 2 and clip_index == when:
        print("FREEZE", time.time(), flush=True)
        stage.inbound.ack_every = FRAMES


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank, world = dist.get_rank(), dist.get_world_size()
    stage = EncoderStage(rank, world)
    when = random.Random(616).randint(15, 25)
    for i in range(60):
        coalesce_acks(stage, i, when)
        energy = torch.tensor([stage.clip()])
        dist.all_reduce(energy)
        if rank == 0 and i % 10 == 0:
            print("clip", i, f"{energy.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
