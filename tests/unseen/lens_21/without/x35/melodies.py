import torch


class Melodies:
    """Tunes that walk up and down a scale."""

    def __init__(self, count=2000, length=48, notes=96):
        steps = torch.randint(-3, 4, (count, length + 1))
        self.tunes = (notes // 2 + steps.cumsum(1)).clamp(0, notes - 1)

    def batch(self, size):
        picked = self.tunes[torch.randint(0, len(self.tunes), (size,))]
        return picked[:, :-1], picked[:, 1:]
