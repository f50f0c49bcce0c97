import torch.distributed as dist


def begin():
    """Process group for all programs of the lab; ranks that call different operations get an error, not a hang."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)  #: LINE
    dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()
