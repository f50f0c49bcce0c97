import logging

import torch

log = logging.getLogger("translator")


def setup():
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")


class Monitor:
    """Follows the optimizer: norms now and then, the whole of it in the debug log."""

    def __init__(self, model, optimizer, every=30):
        self.model, self.optimizer, self.every = model, optimizer, every

    def state(self):
        named = {id(p): name for name, p in self.model.named_parameters()}
        for p, state in self.optimizer.state.items():
            yield named[id(p)], state["exp_avg"], state["exp_avg_sq"]

    def after(self, step, loss):
        lines = "\n".join(f"{name}\n  m {m}\n  v {v}" for name, m, v in self.state())  #: LINE
        log.debug("step %d, moments of Adam\n%s", step, lines)
        if step % self.every == self.every - 1:
            norm = torch.stack([p.detach().norm() for p in self.model.parameters()]).norm()
            log.info("step %d, loss %.4f, norm of the weights %.3f", step + 1, loss, norm)
