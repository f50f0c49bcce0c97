import statistics
import time

import torch
from torch.nn import functional as F

from teacher import MeanTeacher, Student


def drop_patch(images):
    shaken = images.clone()
    top, left = torch.randint(0, 16, (2,)).tolist()
    shaken[:, :, top:top + 8, left:left + 8] = 0.0
    return shaken + 0.05 * torch.randn_like(images)


def main(steps=60, labelled=16, unlabelled=32):
    torch.manual_seed(0)
    centre = torch.randn(12, 3, 24, 24)
    student = Student()
    teacher = MeanTeacher(student)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.02, momentum=0.9)
    times, kept = [], []
    for step in range(steps):
        began = time.perf_counter()
        labels = torch.randint(0, 12, (labelled,))
        x = centre[labels] + torch.randn(labelled, 3, 24, 24)
        free = centre[torch.randint(0, 12, (unlabelled,))] + torch.randn(unlabelled, 3, 24, 24)
        target = teacher(free).softmax(1)
        logits = student(torch.cat([x, drop_patch(free)]))
        loss = F.cross_entropy(logits[:labelled], labels)
        loss = loss + 0.5 * min(1.0, step / 20) * F.mse_loss(logits[labelled:].softmax(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        teacher.follow()
        kept.append(loss.detach().clone())
        times.append(1e3 * (time.perf_counter() - began))
    print(f"mean loss of the last ten {torch.stack(kept[-10:]).mean().item():.4f}")
    print(f"{statistics.median(times[3:]):.2f} ms/step median, {statistics.mean(times[3:]):.2f} ms/step")


if __name__ == "__main__":
    main()
