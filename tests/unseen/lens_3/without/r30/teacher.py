"""A slow-moving teacher lives on rank 0; its pieces and its album are sent to the other ranks while the student works."""
import torch
import torch.distributed as dist


class Teacher:
    def __init__(self, student):
        self.pieces = [p.detach().clone() for p in student.parameters()]
        self.album = [torch.zeros(6000, student.wide) for _ in range(4)]    # what it said before
        self.at = 0
        self.travelling = []

    def follow(self, student, said, keep=0.98):
        if dist.get_rank() == 0:
            page, row = self.at % 4, self.at // 4
            self.album[page][row] = said.detach().mean(0)
            self.at += 1
            for t, p in zip(self.pieces, student.parameters()):
                t.lerp_(p.detach(), 1 - keep)

    def send(self):
        self.travelling = [dist.broadcast(t, src=0, async_op=True) for t in self.album + self.pieces]

    def arrived(self):
        for work in self.travelling:
            work.wait()

    def __call__(self, x):
        for t in self.pieces:
            x = torch.tanh(x @ t.T)
        return x
