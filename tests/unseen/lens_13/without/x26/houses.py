import numpy as np
import pandas as pd
import torch


def read(rows=6400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 40)).astype("float32"), columns=[f"c{i}" for i in range(40)])
    frame["price"] = (frame["c0"] * 2 + frame["c1"].abs()).astype("float32")
    return frame


def epoch(frame, batch, seed):
    mixed = frame.sample(frac=1, random_state=seed)
    for start in range(0, len(mixed) - batch + 1, batch):
        part = mixed.iloc[start:start + batch]
        values = torch.from_numpy(part.to_numpy(dtype="float32"))
        yield values[:, :-1], values[:, -1]


def epoch_of_tensor(table, batch, seed):
    mixed = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))]
    for values in mixed.split(batch):
        yield values[:, :-1], values[:, -1]
