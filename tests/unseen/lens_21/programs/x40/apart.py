from accelerate.local_sgd import LocalSGD


def apart(accelerator, model, every):
    """Lets each rank learn on its own and sets the weights to the mean of the ranks now and then."""
    return LocalSGD(accelerator=accelerator, model=model, local_sgd_steps=every)
