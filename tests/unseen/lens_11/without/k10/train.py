"""Activities of daily life from wrist sensors, with a confusion matrix kept while training."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from pace import Pace

CLASSES = 12
STEPS = 66


class Activity(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(6, 64, 5, padding=2)
        self.conv2 = nn.Conv1d(64, 64, 5, padding=2)
        self.fc1 = nn.Linear(64 * 8, 256)
        self.fc2 = nn.Linear(256, CLASSES)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.conv1(x)), 2)
        x = F.max_pool1d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


torch.manual_seed(7)
windows = torch.randn(4096, 6, 32)
activity = (windows.mean((1, 2)) * 40).long().clamp(-6, 5) + 6
model = Activity()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
confusion_matrix = torch.zeros(CLASSES, CLASSES)
pace = Pace()
for step in range(STEPS):
    pick = torch.randint(0, len(windows), (640,))
    inputs, classes = windows[pick], activity[pick]
    outputs = model(inputs)
    loss = F.cross_entropy(outputs, classes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        _, preds = torch.max(outputs, 1)
        flat = classes * CLASSES + preds
        confusion_matrix += torch.bincount(flat, minlength=CLASSES ** 2).view(CLASSES, CLASSES)
    pace.tick()
print("recall by class:", (confusion_matrix.diag() / confusion_matrix.sum(1).clamp(min=1)).numpy().round(2))
pace.report()
