"""Watches what the layers give out."""
import logging

from torch import nn

log = logging.getLogger("activations")


def attach(model):
    for name, module in model.named_modules():
        if isinstance(module, (nn.Conv2d, nn.BatchNorm2d)):
            module.register_forward_hook(report(name))


def report(name):
    def hook(module, inputs, out):
        log.debug(f"{name}: mean {out.mean():.4f} std {out.std():.4f} largest {out.abs().max():.4f}")  #: LINE
    return hook
