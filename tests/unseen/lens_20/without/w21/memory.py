import torch


def free_memory():
    """Give back what the step before has left."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
