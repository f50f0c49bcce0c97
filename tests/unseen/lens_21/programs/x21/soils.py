import torch
from torch.utils.data import DataLoader, TensorDataset

STUFFS = ("clay", "sand", "silt", "carbon", "nitrogen", "acid")


def loader(batch, count=16000, bands=160):
    """Light that soils throw back, and what is in them."""
    shares = torch.rand(count, len(STUFFS)).softmax(1)
    light = shares @ torch.rand(len(STUFFS), bands) + 0.02 * torch.randn(count, bands)
    return DataLoader(TensorDataset(light, shares), batch, shuffle=True, drop_last=True)
