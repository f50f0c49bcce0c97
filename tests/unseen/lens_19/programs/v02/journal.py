import torch
import torch.distributed as dist


class Journal:
    """Notes down how many directions each layer uses. Rank 0 keeps it, the others have nothing to do here."""

    def __init__(self, net, every):
        self.net, self.every = net, every
        self.rows = []

    @torch.no_grad()
    def note(self, step):
        if dist.get_rank() != 0:
            return
        ranks = [self.directions(layer.weight) for layer in self.net if isinstance(layer, torch.nn.Linear)]  #: LINE
        if step % self.every == self.every - 1:
            self.rows.append((step, [round(r, 2) for r in torch.stack(ranks).tolist()]))

    @staticmethod
    def directions(weight):
        share = torch.linalg.svdvals(weight)
        share = share / share.sum()
        return torch.exp(-(share * share.clamp_min(1e-12).log()).sum())
