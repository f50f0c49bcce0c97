"""Two actors, one replay keeper, one learner: every role does something else, in groups of its own."""
import time

import torch
import torch.distributed as dist
import torch.nn as nn

ACTORS, KEEPER, LEARNER = (0, 1), 2, 3
OBS, ROLL, UPDATES = 24, 64, 36


def policy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(OBS, 128), nn.Tanh(), nn.Linear(128, OBS))


def flat(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def load(net, vec):
    nn.utils.vector_to_parameters(vec, net.parameters())


def act(rank, actor_group, weights_group):
    net = policy()
    state = torch.zeros(ROLL, OBS)
    g = torch.Generator().manual_seed(rank)
    for upd in range(UPDATES):
        # actor 1 plays the longer game: three environment steps for each of actor 0
        for _ in range(30 if rank == 1 else 10):
            with torch.no_grad():
                state = 0.9 * state + 0.1 * net(state) + 0.05 * torch.randn(ROLL, OBS, generator=g)
            time.sleep(0.006)
        spread = state.std()
        dist.all_reduce(spread, group=actor_group)
        dist.send((state / spread.clamp(min=1e-3)).contiguous(), dst=KEEPER, tag=upd)
        if upd % 3 == 2:
            vec = torch.empty_like(flat(net))
            dist.broadcast(vec, src=LEARNER, group=weights_group)
            load(net, vec)


def keep():
    store = []
    for upd in range(UPDATES):
        for a in ACTORS:
            box = torch.empty(ROLL, OBS)
            dist.recv(box, src=a, tag=upd)
            store.append(box)
        if upd % 3 == 2:
            pick = torch.randperm(len(store))[:6]
            dist.send(torch.stack([store[i] for i in pick]), dst=LEARNER, tag=900 + upd)


def learn(weights_group):
    net = policy()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for upd in range(2, UPDATES, 3):
        batch = torch.empty(6, ROLL, OBS)
        dist.recv(batch, src=KEEPER, tag=900 + upd)
        for _ in range(20):
            loss = (net(batch) + batch).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(f"update {upd} loss {loss.item():.4f}", flush=True)
        dist.broadcast(flat(net), src=LEARNER, group=weights_group)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    actor_group = dist.new_group(list(ACTORS))
    weights_group = dist.new_group([*ACTORS, LEARNER])
    if rank in ACTORS:
        act(rank, actor_group, weights_group)
    elif rank == KEEPER:
        keep()
    else:
        learn(weights_group)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
