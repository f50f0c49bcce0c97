import statistics
from time import perf_counter

import torch
from torch.distributions import Categorical

from advantages import advantages
from policy import ActorCritic
from rollout import Pendulums


def update(model, optimizer, obs, actions, rewards, clip=0.2):
    with torch.no_grad():
        logits, values = model(obs)
        old = Categorical(logits=logits).log_prob(actions)
        adv, returns = advantages(rewards, values, values[-1])
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for part in torch.randperm(len(obs)).chunk(2):
        logits, values = model(obs[part])
        policy = Categorical(logits=logits)
        ratio = (policy.log_prob(actions[part]) - old[part]).exp()
        gain = torch.min(ratio * adv[part], ratio.clamp(1 - clip, 1 + clip) * adv[part]).mean()
        loss = -gain + 0.5 * (returns[part] - values).pow(2).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return loss


def main(steps=60):
    torch.manual_seed(0)
    world, model = Pendulums(), ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)
    times = []
    for step in range(steps):
        begin = perf_counter()
        loss = update(model, optimizer, *world.collect())
        times.append(1e3 * (perf_counter() - begin))
        if step % 20 == 19:
            print(f"update {step + 1}: loss {loss.item():.4f}")
    times = times[3:]
    print(f"{statistics.median(times):.2f} ms/step median, {statistics.mean(times):.2f} ms/step")


main()
