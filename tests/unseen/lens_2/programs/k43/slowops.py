import torch


def gate(x):
    return x * torch.sigmoid(1.7 * x)
