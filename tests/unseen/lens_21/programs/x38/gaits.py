import torch
from torch.utils.data import DataLoader, TensorDataset

JOINTS = ("hip_l", "hip_r", "knee_l", "knee_r", "ankle_l", "ankle_r", "toe_l", "toe_r", "shoulder_l", "shoulder_r",
          "elbow_l", "elbow_r", "wrist_l", "wrist_r", "neck", "head")


def walks(count=6000, times=40, sensors=12):
    """Sensors on a walking person, and the angles of the joints at the end."""
    phase, pace = torch.rand(2, count, 1, 1)
    clock = torch.arange(times).view(1, -1, 1)
    signals = (clock * (0.2 + pace) + 6.3 * phase + torch.arange(sensors)).sin()
    angles = (times * (0.2 + pace[:, 0]) + 6.3 * phase[:, 0] + torch.arange(len(JOINTS)) / 2).cos()
    return TensorDataset(signals + 0.1 * torch.randn_like(signals), angles)


def loader(batch):
    return DataLoader(walks(), batch, shuffle=True, drop_last=True)
