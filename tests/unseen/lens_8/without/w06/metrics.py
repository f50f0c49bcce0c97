"""Metrics over the whole batch of all processes."""


def accuracy(logits, targets):
    return (logits.argmax(-1) == targets).float().mean()


def confidence(logits, targets):
    return logits.max(-1).values.sub(logits.logsumexp(-1)).exp().mean()
