"""Which window of which source the n-th sample of a run is."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emberward.data._blend import Blend
from emberward.data._permutation import permute
from emberward.draws import key_of

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOrigin:
    """Where a sample comes from: `window` of `source` in that source's `epoch`, all counted from 0."""

    source: str
    epoch: int
    window: int


class Order:
    """Samples by number, the same on every rank and in every run of the same data and seed.

    [Note: order]
    Sample n belongs to the source that the blend gives it; the m-th sample of a source with W windows (images count as
    windows) is window permute(m % W) of epoch m // W, under a key made of seed, source and epoch. So within an epoch
    each window of a source comes once, the next epoch has another order, and nothing but the number of samples
    consumed has to be saved to go on, on any number of ranks.
    """

    def __init__(self, *, names: Sequence[str], sizes: Sequence[int], blend: Blend, seed: int) -> None:
        self.names = tuple(names)
        self.sizes = tuple(sizes)
        self.seed = seed
        self._blend = blend

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of samples of each source, as the blend uses it."""
        return tuple(float(weight) for weight in self._blend.weights)

    def origins(self, indices: Sequence[int]) -> list[SampleOrigin]:
        """Where each of the samples comes from."""
        sources, epochs, windows = self.locate(np.asarray(indices, dtype=np.int64))
        return [
            SampleOrigin(source=self.names[source], epoch=epoch, window=window)
            for source, epoch, window in zip(sources.tolist(), epochs.tolist(), windows.tolist(), strict=True)
        ]

    def locate(self, samples: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Source, epoch and window of each sample. See [Note: order]."""
        if len(samples) and int(samples.min()) < 0:
            raise ValueError(f"sample numbers begin at 0, found {int(samples.min())}")
        sources, turns = self._blend.locate(samples)
        epochs, windows = np.zeros_like(turns), np.zeros_like(turns)
        for source in np.unique(sources).tolist():
            rows = np.flatnonzero(sources == source)
            size = self.sizes[source]
            epochs[rows] = turns[rows] // size
            keys = np.array(
                [key_of(self.seed, source, epoch) for epoch in epochs[rows].tolist()],
                dtype=np.uint64,
            )
            windows[rows] = permute(turns[rows] % size, size=size, keys=keys)
        return sources, epochs, windows
