"""Dropout and drop path by counter: the same on every layout, and when a forward is computed again. Needs torch."""

import torch
from torch import Tensor

from emberward.draws import GOLDEN, LANES, Draws, Place, mix64_any, scale_of, signed, threshold_of


def drop(x: Tensor, draws: Draws | None, place: Place, rate: float, *, first: int = 0) -> Tensor:
    """Dropout of [B, ...], whose part of each sample begins at element `first` of the sample's whole row.

    None, or rate 0: `x` itself.
    """
    if draws is None or rate == 0:
        return x
    num = x[0].numel()
    return torch.where(_kept(x, draws, place, rate, num, first).view(x.shape), x * scale_of(rate), 0.0)


def drop_samples(x: Tensor, draws: Draws | None, place: Place, rate: float) -> Tensor:
    """Drop path of [B, ...]: whole samples are left out (Huang et al. 2016)."""
    if draws is None or rate == 0:
        return x
    kept = _kept(x, draws, place, rate, 1, 0).view(-1, *(1 for _ in x.shape[1:]))
    return torch.where(kept, x * scale_of(rate), 0.0)


def _kept(like: Tensor, draws: Draws, place: Place, rate: float, num: int, first: int) -> Tensor:
    """Which elements stay: bool [B, num], on the device of `like`."""
    if like.untyped_storage().device.type == "meta":
        # A dry run's tensors hold no values (`sources/fake_world.py`): nothing is to be drawn.
        return torch.ones(len(draws.samples), num, dtype=torch.bool, device=like.device)
    if like.device.type == "cpu":
        return torch.from_numpy(draws.keep(place, rate, num, first=first))
    return device_lanes(draws, place, num, first, like.device) >= threshold_of(rate)


def device_lanes(draws: Draws, place: Place, num: int, first: int, device: torch.device) -> Tensor:
    """`Draws.lanes` computed on a device: int32 [B, num], the same numbers."""
    keys = torch.from_numpy(draws.keys(place).view("int64")).to(device, non_blocking=True)
    begin, end = first // LANES, -(-(first + num) // LANES)
    words = mix64_any(keys[:, None] + torch.arange(begin, end, device=device) * signed(GOLDEN))
    skip = first - begin * LANES
    return words.view(torch.int16)[:, skip : skip + num].to(torch.int32) & 0xFFFF
