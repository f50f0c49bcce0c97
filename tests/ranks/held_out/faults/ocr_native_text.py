#: n=4 ranks=3 cause=segfault tier=error set=2
"""OCR line recogniser. Transcripts are measured with the C library, since the
Python string functions were a hot spot for very long documents."""
import ctypes
import time
from datetime import timedelta
from typing import List, NamedTuple, Optional

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP

_libc = ctypes.CDLL(None)
_libc.strlen.argtypes = [ctypes.c_char_p]
_libc.strlen.restype = ctypes.c_size_t


class Line(NamedTuple):
    pixels: Tensor
    transcript: Optional[bytes]


class LineReader:
    """Scanned lines; the annotators left a handful without a transcript."""

    MISSING = {(3, 23, 2), (0, 150, 1)}  # (shard, batch, row)

    def __init__(self, shard: int, batch_size: int = 6):
        self.shard = shard
        self.batch_size = batch_size
        self.gen = torch.Generator().manual_seed(shard)

    def batch(self, index: int) -> List[Line]:
        time.sleep(0.2)
        lines = []
        for row in range(self.batch_size):
            pixels = torch.rand(48, generator=self.gen)
            text: Optional[bytes] = b"lorem ipsum " * (1 + (index + row) % 4)
            if (self.shard, index, row) in self.MISSING:
                text = None
            lines.append(Line(pixels, text))
        return lines


def native_length(text: Optional[bytes]) -> int:
    if text is None:
        print("FREEZE", time.time(), flush=True)
    return _libc.strlen(text)  #: LINE


def collate(lines: List[Line]):
    pixels = torch.stack([line.pixels for line in lines])
    lengths = torch.tensor([float(native_length(line.transcript)) for line in lines])
    return pixels, lengths / 48.0


class LengthRegressor(nn.Module):
    """Predicts the transcript length, used to bucket lines."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(48, 32), nn.ReLU())
        self.regress = nn.Linear(32, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        h = self.features(pixels)
        h = h + self.features(pixels.flip(dims=[1]))  # test-time style mirror
        return self.regress(h).squeeze(-1)


def main() -> None:
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    rank = dist.get_rank()
    torch.manual_seed(6)
    model = DDP(LengthRegressor(), static_graph=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    reader = LineReader(rank)

    for index in range(400):
        pixels, lengths = collate(reader.batch(index))
        loss = nn.functional.smooth_l1_loss(model(pixels), lengths)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rank == 0 and index % 10 == 0:
            print(f"batch {index}: loss {loss.item():.4f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
