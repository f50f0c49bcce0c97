from torch.nn import functional as F
from transformers import Trainer


class TwiceTrainer(Trainer):
    """R-Drop: the same verses under two dropout masks are to get the same answer."""

    def __init__(self, *args, alike=1.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.alike = alike

    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        first = model(**inputs)
        second = model(**inputs)
        a, b = first["logits"].log_softmax(-1), second["logits"].log_softmax(-1)
        apart = F.kl_div(a, b, reduction="batchmean", log_target=True) + F.kl_div(b, a, reduction="batchmean", log_target=True)
        loss = (first["loss"] + second["loss"]) / 2 + self.alike * apart / 2
        return (loss, first) if return_outputs else loss
