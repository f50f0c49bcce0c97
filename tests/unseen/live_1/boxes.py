"""Detections of all ranks are gathered with padding, also when some have none."""
import torch
import torch.distributed as dist


def detections(rank, image):
    n = (rank * 7 + image * 3) % 11
    if rank == 1 and image % 4 == 0:
        n = 0
    g = torch.Generator().manual_seed(image * 16 + rank)
    return torch.rand(n, 5, generator=g)


def gather_padded(t):
    world = dist.get_world_size()
    sizes = [torch.zeros(1, dtype=torch.long) for _ in range(world)]
    dist.all_gather(sizes, torch.tensor([len(t)]))
    top = int(max(sizes))
    if top == 0:
        return t
    pad = torch.zeros(top, t.shape[1])
    pad[:len(t)] = t
    parts = [torch.empty_like(pad) for _ in range(world)]
    dist.all_gather(parts, pad)
    return torch.cat([p[:int(n)] for p, n in zip(parts, sizes)])


def nms(boxes, thr=0.5):
    keep = []
    for b in boxes[boxes[:, 4].argsort(descending=True)]:
        if all((b[:4] - k[:4]).abs().max() > thr * 0.5 for k in keep):
            keep.append(b)
    return torch.stack(keep) if keep else boxes[:0]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for image in range(40):
        everything = gather_padded(detections(rank, image))
        kept = nms(everything)
        count = torch.tensor([len(kept)])
        dist.broadcast(count, 0)
        assert count.item() == len(kept)
        if rank == 2 and image % 10 == 0:
            print(f"image {image}: {len(everything)} -> {len(kept)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
