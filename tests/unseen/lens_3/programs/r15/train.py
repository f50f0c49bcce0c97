"""A rhyme finder: pairs of line endings, hinge loss, three passes over the poems."""
import random
import time

import torch

from device import Device

POEMS, PASSES, DIM = 10, 3, 16
torch.set_num_threads(1)
torch.manual_seed(0)
dice = random.Random(4)

letters = torch.randn(27, DIM, requires_grad=True)
device = Device()


def spell(word):
    return torch.tensor([ord(c) - 96 for c in word])


def open_poem(number):
    time.sleep(0.025)                            # page scan
    endings = ["ight", "ough", "ear", "ine", "ace"]
    pairs = []
    for _ in range(24):
        a, b = dice.choice(endings), dice.choice(endings)
        pairs.append((dice.choice("bcdfgl") + a, dice.choice("mnprst") + b, 1.0 if a == b else -1.0))
    return pairs


def study(pairs, rate):
    total = 0
    for left, right, same in pairs:
        l, r = letters[spell(left)].mean(0), letters[spell(right)].mean(0)
        total = total + torch.relu(1 - same * (l @ r))
    total = total / len(pairs)
    (grad,) = torch.autograd.grad(total, letters)
    with torch.no_grad():
        letters.sub_(rate * grad)
    return total


def run():
    history = []
    begin = time.perf_counter()
    for tour in range(PASSES):
        rate = 0.5 / (1 + tour)
        for poem in range(POEMS):
            pairs = open_poem(poem)
            loss = device.kernel(study(pairs, rate), ms=40)
            print("pass", tour, "poem", poem, "loss", loss, flush=True)  #: LINE
            history.append(loss)
    device.flush()
    return (time.perf_counter() - begin) / (POEMS * PASSES) * 1e3, history


ms, history = run()
print("first", float(history[0]), "last", float(history[-1]))
print(f"{ms:.2f} ms/step")
