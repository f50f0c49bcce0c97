"""The losses that a program logs by itself, read from what `capture` noted in its processes. Needs no torch."""

from emberward.sources.losses._line import Reading, loss_name, losses_in
from emberward.sources.losses._reader import Logged, LossReader

__all__ = ["Logged", "LossReader", "Reading", "loss_name", "losses_in"]
