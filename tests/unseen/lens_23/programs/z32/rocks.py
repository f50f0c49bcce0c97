import torch
from torch import nn
from torch.utils.data import Dataset


class Cores(Dataset):
    """Pieces of drill cores as spectra, and the mineral at each depth. Takes places, gives a batch."""

    def __init__(self, count=2400, bands=32, depths=64, minerals=40):
        self.mineral = torch.randint(0, minerals, (count, depths // 8)).repeat_interleave(8, 1)
        self.spectra = (torch.randn(minerals, bands)[self.mineral] + torch.randn(count, depths, bands)).transpose(1, 2).contiguous()

    def __len__(self):
        return len(self.mineral)

    def __getitem__(self, picked):
        return self.spectra[picked], self.mineral[picked]


def network(bands=32, width=128, minerals=40):
    return nn.Sequential(
        nn.Conv1d(bands, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
        nn.Conv1d(width, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, minerals, 1),
    )


def confusion(accelerator, scores, mineral, minerals=40):
    """Which mineral is taken for which, over the batches of all ranks."""
    scores, mineral = accelerator.gather_for_metrics((scores, mineral))
    pairs = mineral.flatten() * minerals + scores.argmax(1).flatten()
    return torch.bincount(pairs, minlength=minerals * minerals).view(minerals, minerals)
