from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def split(model, mesh):
    """Each part is cut in two in its middle, and whole at both ends."""
    return parallelize_module(model, mesh, {
        "parts.*.up": ColwiseParallel(input_layouts=Replicate()),
        "parts.*.down": RowwiseParallel(output_layouts=Replicate()),
    })
