import torch
from torch.nn import functional as F


def judge_update(accelerator, judge, optimizer, seen, reward):
    loss = F.mse_loss(judge(seen), reward)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    return loss.detach()


def pilot_update(accelerator, pilot, judge, optimizer, seen, way, reward):
    with torch.no_grad():
        better = reward - judge(seen)
    chance = pilot(seen).log_softmax(1)
    loss = -(better * chance.gather(1, way.unsqueeze(1)).squeeze(1)).mean() + 0.01 * (chance.exp() * chance).sum(1).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    return loss.detach()
