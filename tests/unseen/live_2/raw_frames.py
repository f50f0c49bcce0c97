"""Video autoencoder; frames are unpacked with a C routine through ctypes."""
import ctypes
import time

import torch
import torch.distributed as dist
from torch import nn

libc = ctypes.CDLL(None)
libc.memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
libc.memmove.restype = ctypes.c_void_p
H, W = 48, 64


class FrameFile:
    """A pretended camera dump: a header with the offset of each frame and then the frames."""

    def __init__(self, rank, frames=64):
        self.buf = (ctypes.c_uint8 * (frames * H * W))()
        for i in range(0, len(self.buf), 17):
            self.buf[i] = (i * 31 + rank) % 251
        self.offsets = [i * H * W for i in range(frames)]
        if rank == 2:
            self.offsets[41] = 0x7FFF_F000_0000  # the header of this dump was cut off by the copy

    def unpack(self, index):
        out = torch.empty(H * W, dtype=torch.uint8)
        src = ctypes.addressof(self.buf) + self.offsets[index % len(self.offsets)]
        libc.memmove(out.data_ptr(), src, H * W)  #: LINE
        return out.view(1, H, W).float() / 255


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 5, 2, 2), nn.ReLU())
        self.dec = nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x):
        return self.dec(self.enc(x))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    film = FrameFile(rank)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(AutoEncoder())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        clip = torch.stack([film.unpack(step + k) for k in range(8)])
        time.sleep(0.08)  # the codec on the card needs about this long
        loss = (net(clip) - clip).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"frame {step} loss {loss.item():.5f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
