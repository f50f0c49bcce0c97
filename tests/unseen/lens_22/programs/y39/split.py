from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def split(model, mesh):
    """Shares the big layers out over the ranks."""
    plan = {}
    for place in range(len(model.layers)):
        for name in ("q", "k", "v", "up"):
            plan[f"layers.{place}.{name}"] = ColwiseParallel(output_layouts=Replicate())  #: LINE
        for name in ("o", "down"):
            plan[f"layers.{place}.{name}"] = RowwiseParallel(input_layouts=Replicate())
    return parallelize_module(model, mesh, plan)
