import torch


class Pendulums:
    """Many small pendulums, moved all at once; rewards come from a kept batch of trajectories."""

    def __init__(self, envs=8, length=512, obs=48, actions=6, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.shape = (length, envs)
        self.obs, self.actions = obs, actions
        self.dynamics = 0.2 * torch.randn(obs, obs, generator=self.g)

    def collect(self):
        length, envs = self.shape
        start = torch.randn(length, envs, self.obs, generator=self.g)
        obs = torch.tanh(start @ self.dynamics)
        actions = torch.randint(self.actions, (length, envs), generator=self.g)
        rewards = obs[..., 0] - 0.1 * (actions.float() - 2.5).abs()
        return obs, actions, rewards
