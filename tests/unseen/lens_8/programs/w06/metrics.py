"""Metrics over the whole batch of all processes."""


def accuracy(accelerator, logits, targets):
    logits, targets = accelerator.gather((logits, targets))
    return (logits.argmax(-1) == targets).float().mean()


def confidence(accelerator, logits, targets):
    logits, targets = accelerator.gather((logits, targets))
    return logits.max(-1).values.sub(logits.logsumexp(-1)).exp().mean()
