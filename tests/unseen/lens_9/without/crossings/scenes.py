"""Street scenes: a scene is a set of objects (cars, people, signs).  Three towns, very differently busy."""
import torch

TOWNS = {"village": (6, 14), "suburb": (40, 60), "centre": (90, 120)}


def all_scenes(n_each=240, features=20):
    g = torch.Generator().manual_seed(77)
    scenes = []
    for town, (lo, hi) in TOWNS.items():
        for _ in range(n_each):
            k = int(torch.randint(lo, hi, (1,), generator=g))
            scenes.append(torch.randn(k, features, generator=g))
    return scenes


def my_share(scenes, rank, world):
    return scenes[rank::world]


def collate(scenes):
    """All objects in one long table, with the number of the scene of each."""
    owner = torch.repeat_interleave(torch.arange(len(scenes)), torch.tensor([len(s) for s in scenes]))
    return torch.cat(scenes), owner, torch.tensor([float(s[:, 0].amax() > 2) for s in scenes])
