import torch
import torch.distributed as dist


class Pool:
    """Gradients of all weights as views of a few large buffers, and their mean over the ranks."""

    def __init__(self, weights, megabytes=8):
        self.flats, held, size = [], [], 0
        for weight in weights:
            held.append(weight)
            size += weight.numel()
            if size * 4 > megabytes * 2 ** 20:
                self.close(held, size)
                held, size = [], 0
        if held:
            self.close(held, size)

    def close(self, held, size):
        flat, place = torch.zeros(size), 0
        for weight in held:
            weight.grad = flat[place:place + weight.numel()].view_as(weight)
            place += weight.numel()
        self.flats.append(flat)

    def clear(self):
        for flat in self.flats:
            flat.zero_()

    def mean(self):
        for flat in self.flats:
            dist.all_reduce(flat)
            flat.div_(dist.get_world_size())
