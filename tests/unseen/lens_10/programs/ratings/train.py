# neural collaborative filtering on made-up ratings
from statistics import mean, median
from time import perf_counter

import torch

from model import Recommender
from tracker import UserLoss

USERS, ITEMS, BATCH, STEPS = 4000, 1500, 4096, 66

torch.manual_seed(11)
taste = torch.randn(USERS, 6), torch.randn(ITEMS, 6)
n = BATCH * 24
u, i = torch.randint(0, USERS, (n,)), torch.randint(0, ITEMS, (n,))
stars = (taste[0][u] * taste[1][i]).sum(-1) * 0.5 + 3

model = Recommender(USERS, ITEMS)
optim = torch.optim.Adam(model.parameters(), lr=1e-3)
criterion = torch.nn.MSELoss(reduction="none")
tracker = UserLoss(USERS)

stamps = [perf_counter()]
for step in range(STEPS):
    pick = torch.arange(step % 24 * BATCH, (step % 24 + 1) * BATCH)
    users, items, y = u[pick], i[pick], stars[pick]
    per_row = criterion(model(users, items), y)
    optim.zero_grad()
    per_row.mean().backward()
    optim.step()
    tracker.update(users, per_row.detach())
    stamps.append(perf_counter())

print("hardest users:", tracker.worst())
d = [(b - a) * 1000 for a, b in zip(stamps, stamps[1:])][3:]
print("%.2f ms/step median, %.2f ms/step" % (median(d), mean(d)))
