import torch
import torch.distributed as dist


class Counter:
    """A number that is added up over all ranks, when it is read."""

    def __init__(self):
        self.value = torch.zeros((), dtype=torch.float64)

    def add(self, amount):
        self.value += amount.double()


class LabelMetrics:
    def __init__(self, names):
        self.names = names
        self.counts = {name: {"hit": Counter(), "said": Counter(), "true": Counter()} for name in names}

    @torch.no_grad()
    def update(self, logits, labels):
        said = (logits > 0).float()
        hit = said * labels
        for k, name in enumerate(self.names):
            count = self.counts[name]
            count["hit"].add(hit[:, k].sum())
            count["said"].add(said[:, k].sum())
            count["true"].add(labels[:, k].sum())

    def f1(self):
        everything = [c.value for name in self.names for c in self.counts[name].values()]
        total = torch.stack(everything)
        dist.all_reduce(total)
        for value, t in zip(everything, total):
            value.copy_(t)
        scores = [2 * c["hit"].value / (c["said"].value + c["true"].value).clamp(min=1) for c in self.counts.values()]
        return torch.stack(scores).mean().item()
