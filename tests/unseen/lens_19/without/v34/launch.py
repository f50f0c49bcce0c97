import torch.distributed as dist


def begin():
    """Process group for all programs of the lab."""
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()
