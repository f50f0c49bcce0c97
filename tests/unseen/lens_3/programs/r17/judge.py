import torch


class Referee:
    """Mean rank of the true partner among all stored faces."""

    def __init__(self, left, right, piece=200):
        self.left, self.right, self.piece = left, right, piece

    @torch.no_grad()
    def score(self, tower):
        tower.eval()
        bank = tower(self.right)
        places = []
        for i in range(0, len(self.left), self.piece):
            codes = tower(self.left[i:i + self.piece])
            like = codes @ bank.T
            own = like[torch.arange(len(codes)), torch.arange(i, i + len(codes))]
            places.append((like > own[:, None]).sum(1).float())
        tower.train()
        return torch.cat(places).mean()
