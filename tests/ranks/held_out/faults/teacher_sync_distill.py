#: n=4 ranks=1 cause=different_root tier=error set=3
"""Self-distillation: the rank with the best validation score hands out its teacher."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn

VAL_EVERY = 5


def make_net():
    return nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 3))


class Scoreboard:
    def __init__(self, rank, world):
        self.rank = rank
        self.scores = [0.0] * world

    def exchange(self, mine):
        box = [None] * len(self.scores)
        dist.all_gather_object(box, round(mine, 2))
        self.scores = box
        # keep full precision for the own entry, it is known anyway
        self.scores[self.rank] = mine

    def leader(self):
        return max(range(len(self.scores)), key=lambda r: self.scores[r])


class Teacher:
    def __init__(self):
        self.net = make_net()

    @torch.no_grad()
    def follow(self, student, decay=0.9):
        for t, s in zip(self.net.parameters(), student.parameters()):
            t.mul_(decay).add_(s, alpha=1 - decay)

    @torch.no_grad()
    def adopt(self, leader):
        for p in self.net.parameters():
            dist.broadcast(p.data, src=leader)  #: LINE


def validation_score(rank, rnd):
    """Deterministic proxy of the accuracy on this rank's validation split."""
    table = {0: [0.30, 0.41, 0.50, 0.58, 0.71], 1: [0.25, 0.39, 0.44, 0.52, 0.714],
             2: [0.33, 0.37, 0.53, 0.50, 0.60], 3: [0.21, 0.30, 0.40, 0.49, 0.55]}
    row = table[rank % 4]
    return row[min(rnd, len(row) - 1)]


def distill_loss(student_out, teacher_out, y):
    soft = nn.functional.mse_loss(student_out, teacher_out)
    return nn.functional.cross_entropy(student_out, y) + 0.5 * soft


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(rank)
    student, teacher = make_net(), Teacher()
    board = Scoreboard(rank, dist.get_world_size())
    opt = torch.optim.Adam(student.parameters(), lr=1e-3)
    for step in range(1, 81):
        time.sleep(0.15)
        x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
        with torch.no_grad():
            target = teacher.net(x)
        loss = distill_loss(student(x), target, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        teacher.follow(student)
        if step % VAL_EVERY == 0:
            rnd = step // VAL_EVERY - 1
            board.exchange(validation_score(rank, rnd))
            leader = board.leader()
            if rank == 1 and leader == 1:
                print("FREEZE", time.time(), flush=True)
            teacher.adopt(leader)
            if rank == 0:
                print(f"round {rnd} leader {leader} loss {loss.item():.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
