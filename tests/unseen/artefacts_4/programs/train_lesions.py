"""Lesion segmentation; dice over all ranks after every epoch."""
import flightdump  # noqa: F401
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Slices(Dataset):
    def __init__(self, n, seed, empty=()):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.randn(n, 1, 32, 32, generator=g)
        self.masks = torch.zeros(n, 1, 32, 32)
        for i in range(n):
            if i not in empty:
                r, c = torch.randint(0, 24, (2,), generator=g).tolist()
                self.masks[i, 0, r:r + 8, c:c + 8] = 1
        self.images += self.masks

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


def unet():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))


@torch.no_grad()
def dice_score(model, loader):
    world = dist.get_world_size()
    scores = []
    model.eval()
    for images, masks in loader:
        pred = (model(images) > 0).float()
        if masks.any():
            inter = 2 * (pred * masks).sum()
            dice = inter / (pred.sum() + masks.sum())
            parts = [torch.zeros(()) for _ in range(world)]
            dist.all_gather(parts, dice)
            scores.append(torch.stack(parts).mean())
    model.train()
    return torch.stack(scores).mean().item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    train_set = Slices(500, seed=1)
    val_set = Slices(100, seed=2, empty={41, 46, 51, 56})
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=10, sampler=sampler)
    val_loader = DataLoader(val_set, batch_size=4,
                            sampler=DistributedSampler(val_set, shuffle=False))
    model = DDP(unet())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for images, masks in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(images), masks)
            opt.zero_grad()
            loss.backward()
            opt.step()
        dice = dice_score(model.module, val_loader)
        dist.barrier()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} dice {dice:.3f}", flush=True)
            torch.save(model.module.state_dict(), "lesions.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
