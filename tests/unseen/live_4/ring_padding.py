# Ring attention, forward only: every rank keeps its queries, keys and values go round.
import math
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
me, n = dist.get_rank(), dist.get_world_size()
right, left = (me + 1) % n, (me - 1) % n
SEQ, HEAD = 48, 32


def rotate(kv):
    fresh = torch.empty_like(kv)
    ops = [dist.P2POp(dist.isend, kv, right), dist.P2POp(dist.irecv, fresh, left)]
    for req in dist.batch_isend_irecv(ops):
        req.wait()
    return fresh


def merge(acc, lse, q, kv):
    s = q @ kv[0].T / math.sqrt(HEAD)
    new = torch.logsumexp(s, -1, keepdim=True)
    out = torch.softmax(s, -1) @ kv[1]
    if acc is None:
        return out, new
    both = torch.logaddexp(lse, new)
    return acc * (lse - both).exp() + out * (new - both).exp(), both


def ring_attention(q, kv, n_real):
    acc = lse = None
    if n_real == 0:                       # nothing but padding in my part of the sequence
        return torch.zeros_like(q)        #: LINE
    for hop in range(n):
        acc, lse = merge(acc, lse, q[:n_real], kv)
        if hop < n - 1:
            kv = rotate(kv)
    out = torch.zeros_like(q)
    out[:n_real] = acc
    return out


gen = torch.Generator().manual_seed(99)
for doc in range(1000):
    length = int(torch.randint(SEQ * (n - 1) + 1, SEQ * n, (1,), generator=gen))
    if doc == 2:
        length = SEQ * (n - 1) - 5        # the first one that fits into three ranks
    n_real = max(0, min(SEQ, length - me * SEQ))
    q = torch.randn(SEQ, HEAD)
    kv = torch.randn(2, SEQ, HEAD)
    y = ring_attention(q, kv, n_real)
    total = y.sum().reshape(1)
    dist.all_reduce(total)                #: LINE
    if me == 0 and doc % 100 == 0:
        print(doc, length, float(total), flush=True)
dist.destroy_process_group()
