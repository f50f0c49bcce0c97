"""For the day when the training diverges again."""


def watch_gradients(log, net, step):
    for name, p in net.named_parameters():
        log.debug(f"{step} {name}: |w| {p.norm():.3e} |g| {p.grad.norm():.3e} spread {p.grad.std():.3e} tail {p.grad.abs().flatten().kthvalue(p.numel() * 99 // 100 + 1).values:.3e}")  #: LINE
