import torch
import torch.distributed as dist
from torch.nn import functional as F


def average_gradients(model):
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for grad, part in zip(grads, flat.split([grad.numel() for grad in grads])):
        grad.copy_(part.view_as(grad))


class Game:
    def __init__(self, generator, critic, noise=32):
        self.generator, self.critic, self.noise = generator, critic, noise
        self.of_generator = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.99), fused=True)
        self.of_critic = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.99), fused=True)

    def critic_turn(self, real):
        fake = self.generator(torch.randn(len(real), self.noise))
        loss = F.softplus(-self.critic(real)).mean() + F.softplus(self.critic(fake.detach())).mean()
        self.of_critic.zero_grad()
        loss.backward()
        average_gradients(self.critic)
        self.of_critic.step()
        return loss.detach()

    def generator_turn(self, count):
        self.critic.requires_grad_(False)
        loss = F.softplus(-self.critic(self.generator(torch.randn(count, self.noise)))).mean()
        self.of_generator.zero_grad()
        loss.backward()
        average_gradients(self.generator)
        self.of_generator.step()
        self.critic.requires_grad_(True)
        return loss.detach()
