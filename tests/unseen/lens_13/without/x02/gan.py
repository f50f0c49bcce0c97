from torch import nn


def generator(z=64, c=32):
    return nn.Sequential(
        nn.ConvTranspose2d(z, 4 * c, 4), nn.BatchNorm2d(4 * c), nn.ReLU(),
        nn.ConvTranspose2d(4 * c, 2 * c, 4, 2, 1), nn.BatchNorm2d(2 * c), nn.ReLU(),
        nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.BatchNorm2d(c), nn.ReLU(),
        nn.ConvTranspose2d(c, 1, 3, 1, 1), nn.Tanh(),
    )


def discriminator(c=32):
    return nn.Sequential(
        nn.Conv2d(1, c, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(c, 2 * c, 4, 2, 1), nn.GroupNorm(8, 2 * c), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * c, 4 * c, 4, 2, 1), nn.GroupNorm(8, 4 * c), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(4 * c * 4, 1),
    )


def trainable(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)
