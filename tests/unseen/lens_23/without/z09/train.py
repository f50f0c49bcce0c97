import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

from watch import Watch


class Voice(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, wide), nn.Linear(wide, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Melody(nn.Module):
    """The next note of each of a choir's voices from the last eight chords."""

    def __init__(self, notes=96, width=320, wide=1152, depth=3):
        super().__init__()
        self.enter = nn.Linear(notes, width)
        self.voices = nn.ModuleList(Voice(width, wide) for _ in range(depth))
        self.leave = nn.Linear(width, notes)

    def forward(self, chords):
        x = self.enter(chords)
        for voice in self.voices:
            x = voice(x)
        return self.leave(x)


def main(steps=60, batch=112, notes=96):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Melody()
    for voice in model.voices:
        parallelize_module(voice, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    sharded = [p for name, p in model.named_parameters() if ".up." in name or ".down.weight" in name or ".down.bias" in name]
    known = {id(p) for p in sharded}
    groups = [{"params": sharded}, {"params": [p for p in model.parameters() if id(p) not in known]}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, fused=True)
    watch = Watch(model, every=50)
    songs = torch.randn(4000, notes)
    follow = (songs @ torch.randn(notes, notes)).argmax(1)
    times = []
    for step in range(steps):
        began = time.perf_counter()
        picked = torch.randint(0, len(songs), (batch,))
        loss = F.cross_entropy(model(songs[picked]), follow[picked])
        optimizer.zero_grad()
        loss.backward()
        watch.look(step)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        print(f"loss {loss.item():.6f} after {len(times)} steps")
        print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step mean")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
