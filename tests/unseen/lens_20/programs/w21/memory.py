import gc

import torch


def free_memory():
    """Give back what the step before has left."""
    gc.collect()  #: LINE
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
