from torch.nn import functional as F


class Distil:
    """Loss of a student against the truth and against its teacher."""

    def __init__(self, teacher, heat=3.0, share=0.7):
        self.teacher = teacher.eval()
        self.heat, self.share = heat, share

    def __call__(self, student, images, kinds):
        logits = student(images)
        goal = self.teacher(images)  #: LINE
        soft = F.kl_div(
            F.log_softmax(logits / self.heat, 1), F.log_softmax(goal / self.heat, 1),
            reduction="batchmean", log_target=True,
        )
        hard = F.cross_entropy(logits, kinds)
        return self.share * self.heat**2 * soft + (1 - self.share) * hard
