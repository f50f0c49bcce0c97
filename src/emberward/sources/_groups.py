"""Which group of the vocabulary a process group of torch is: counted where the vocabulary is."""

from emberward.events import GroupTable

__all__ = ["GroupTable"]
