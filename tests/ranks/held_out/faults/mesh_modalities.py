#: n=4 ranks=* cause=cycle_collective tier=error set=2
# Text + vision model on a 2x2 mesh. Text weights are replicated along "dp",
# the vision weights along "tp", so each bucket is reduced over its own axis.
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh

TEXT_ONLY_STEPS = 20


class MixedModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = nn.Linear(18, 12)
        self.vision = nn.Linear(30, 12)
        self.out = nn.Linear(12, 4)

    def forward(self, text, image):
        return self.out(torch.relu(self.text(text) + self.vision(image)))


class MixedStream:
    """Curriculum: text only at first, then documents with figures. The figure
    heavy documents are dealt out like a chess board over the mesh."""

    def __init__(self, row, col):
        self.figure_heavy = (row + col) % 2 == 0
        self.gen = torch.Generator().manual_seed(10 * row + col)

    def __call__(self, step):
        time.sleep(0.16)
        text = torch.randn(8, 18, generator=self.gen)
        image = torch.randn(8, 30, generator=self.gen)
        if step < TEXT_ONLY_STEPS:
            image.zero_()
            touched = {"text": 640, "vision": 0}
        elif self.figure_heavy:
            touched = {"text": 180, "vision": 1024}
        else:
            touched = {"text": 640, "vision": 256}
        label = torch.randint(4, (8,), generator=self.gen)
        return text, image, label, touched


class BucketReducer:
    def __init__(self, model, mesh):
        self.buckets = {
            "text": [*model.text.parameters(), *model.out.parameters()],
            "vision": list(model.vision.parameters()),
        }
        self.groups = {
            "text": mesh.get_group("dp"),
            "vision": mesh.get_group("tp"),
        }

    def reduce(self, touched):
        # biggest first: its transfer is the one worth starting early
        for name in sorted(self.buckets, key=lambda n: -touched[n]):
            group = self.groups[name]
            grads = [p.grad for p in self.buckets[name]]
            flat = torch.cat([g.flatten() for g in grads])
            dist.all_reduce(flat, group=group)
            flat /= dist.get_world_size(group)
            for g, part in zip(grads, flat.split([g.numel() for g in grads])):
                g.copy_(part.view_as(g))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    row, col = mesh.get_coordinate()
    torch.manual_seed(8)
    model = MixedModel()
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    stream = MixedStream(row, col)
    reducer = BucketReducer(model, mesh)

    for step in range(400):
        text, image, label, touched = stream(step)
        loss = nn.functional.cross_entropy(model(text, image), label)
        opt.zero_grad()
        loss.backward()
        if step == TEXT_ONLY_STEPS and dist.get_rank() == 0:
            print("FREEZE", time.time(), flush=True)
        reducer.reduce(touched)
        opt.step()
        if dist.get_rank() == 0 and step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
