"""Calibration over all ranks."""

import torch
import torch.distributed as dist


def collect(step, user, advert, score, clicked):
    mine = {"step": step, "user": user, "advert": advert, "score": score.detach().sigmoid(), "clicked": clicked}
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)
    return everyone


def show(everyone):
    score = torch.cat([part["score"] for part in everyone])
    clicked = torch.cat([part["clicked"] for part in everyone])
    for low in torch.arange(0, 1, 0.1).tolist():
        here = (score >= low) & (score < low + 0.1)
        print(f"{low:.1f}: {clicked[here].mean().item():.3f}")
