"""Memory once crept up over a night; since then we clean after the update."""

import gc


def clean(*_):
    gc.collect()  #: LINE


def keep_tidy(optimizer):
    optimizer.register_step_post_hook(clean)
