import hashlib

import torch.distributed as dist


def fingerprint(module):
    """The weights and buffers of a module in 32 letters."""
    mark = hashlib.md5()
    for tensor in module.state_dict().values():
        mark.update(tensor.numpy())
    return mark.hexdigest()


def require_parity(module):
    """Stops the job when the replicas have drifted apart (we lost a week to that in spring)."""
    marks = [None] * dist.get_world_size()
    dist.all_gather_object(marks, fingerprint(module))
    if len(set(marks)) != 1:
        raise RuntimeError(f"replicas differ: {marks}")
