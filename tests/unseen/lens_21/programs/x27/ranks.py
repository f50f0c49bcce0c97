import torch
from torch.nn.utils import parameters_to_vector, vector_to_parameters


@torch.no_grad()
def keep_alike(accelerator, model):
    """Sets the weights of all ranks to their mean, so that they do not drift apart."""
    weights = parameters_to_vector(model.parameters())
    vector_to_parameters(accelerator.reduce(weights, "mean"), model.parameters())  #: LINE
