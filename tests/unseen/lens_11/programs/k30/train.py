"""Distillation of a keyword spotter: the teacher's answers are half of the loss; the output layer is remembered each step."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

from pace import Pace

STEPS = 62


def spotter(width):
    return nn.Sequential(nn.Conv1d(40, width, 5, padding=2), nn.ReLU(), nn.Conv1d(width, width, 5, padding=2), nn.ReLU(),
                         nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(4 * width, 30))


torch.manual_seed(0)
teacher, student = spotter(192).eval().requires_grad_(False), spotter(96)
opt = torch.optim.AdamW(student.parameters(), lr=2e-3)
best, kept = float("inf"), None
pace = Pace()
for step in range(STEPS):
    sounds, words = torch.randn(24, 40, 100), torch.randint(0, 30, (24,))
    with torch.no_grad():
        wanted = teacher(sounds)
    logits = student(sounds)
    loss = 0.5 * F.cross_entropy(logits, words) + 0.5 * F.kl_div(
        logits.log_softmax(-1), wanted.softmax(-1), reduction="batchmean")
    opt.zero_grad()
    loss.backward()
    opt.step()
    if loss.item() < best:
        best = loss.item()
    kept = copy.deepcopy(student[-1].state_dict())
    pace.tick()
print(f"lowest {best:.4f}, output weights kept: {kept['weight'].numel()}")
pace.report()
