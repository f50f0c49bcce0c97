import torch.distributed as dist


def start():
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def same_start(model):
    for p in model.parameters():
        dist.broadcast(p.data, 0)


def average_gradients(model, world):
    for p in model.parameters():
        dist.all_reduce(p.grad)  #: LINE
        p.grad /= world
