import torch
import torch.distributed as dist


def scans(count=1200, least=80, most=200):
    """Clouds of points on the skin of a box or a ball, as a scanner gives them: of many sizes, in no order."""
    generator = torch.Generator().manual_seed(4)
    made = []
    for size in torch.randint(least, most, (count,), generator=generator).tolist():
        points, round_ = torch.randn(size, 3, generator=generator), len(made) % 2
        made.append((points / (points.norm(dim=1, keepdim=True) if round_ else points.abs().amax(1, keepdim=True)), round_))
    return made


class Share:
    """This rank's part of the scans, in batches."""

    def __init__(self, scans, size):
        share = len(scans) // dist.get_world_size()
        begin = dist.get_rank() * share
        self.scans, self.size = scans[begin:begin + share], size

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.scans)).tolist()
            for i in range(0, len(order) - self.size + 1, self.size):
                picked = [self.scans[j] for j in order[i:i + self.size]]
                sizes = torch.tensor([len(points) for points, _ in picked])
                whose = torch.arange(self.size).repeat_interleave(sizes)
                yield torch.cat([points for points, _ in picked]), whose, torch.tensor([kind for _, kind in picked])
