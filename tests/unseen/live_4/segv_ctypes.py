import ctypes
import struct
import time

import numpy as np
import torch
import torch.distributed as dist

libc = ctypes.CDLL(None)
libc.memcpy.restype = ctypes.c_void_p
libc.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
FRAMES, SIZE = 16, 4096


class SharedBuffer:
    """frames of the camera as its driver leaves them; the header says where the newest one begins"""

    def __init__(self):
        self.store = np.zeros(FRAMES * SIZE, dtype=np.uint8)

    def newest(self, header):
        offset, length = struct.unpack("<QI", header)
        out = np.empty(SIZE, dtype=np.uint8)
        libc.memcpy(out.ctypes.data, self.store.ctypes.data + offset, min(length, SIZE))   #: LINE
        return torch.from_numpy(out).float() / 255


class Driver:
    def __init__(self, buffer, rank):
        self.buffer, self.rank, self.n = buffer, rank, 0
        self.rng = np.random.default_rng(rank)

    def grab(self):
        at = self.n % FRAMES * SIZE
        self.buffer.store[at:at + SIZE] = self.rng.integers(0, 255, SIZE, dtype=np.uint8)
        self.n += 1
        if self.rank == 1 and self.n == 900:
            return struct.pack("<QI", 0x5A5A_5A5A_5A5A, SIZE)     # torn write
        return struct.pack("<QI", at, SIZE)


def main():
    dist.init_process_group("gloo")
    buffer = SharedBuffer()
    driver = Driver(buffer, dist.get_rank())
    w = torch.zeros(SIZE)
    for step in range(3000):
        x = buffer.newest(driver.grab())
        g = (x @ w - x.mean()) * x / SIZE
        dist.all_reduce(g)
        w -= 0.5 * g
        time.sleep(0.02)
        if step % 100 == 0 and dist.get_rank() == 0:
            print(step, float(w.norm()), flush=True)
    dist.destroy_process_group()


main()
