"""Fine-grained bird classifier, trained from JPEG files."""
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader

from birds import Birds, draw_photos
from pace import Pace

steps, batch_size = 60, 12


def stage(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        draw_photos(folder, 320)
        loader = DataLoader(Birds(folder), batch_size, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True, prefetch_factor=4)
        net = nn.Sequential(stage(3, 24), stage(24, 48), stage(48, 96), stage(96, 96),
                            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10))
        sgd = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
        criterion = nn.CrossEntropyLoss()
        pace = Pace()
        done = 0
        while done < steps:
            for photos, species in loader:
                loss = criterion(net(photos), species)
                sgd.zero_grad()
                loss.backward()
                sgd.step()
                done += 1
                pace.tick()
        print("loss", round(loss.item(), 4))
        pace.report()
