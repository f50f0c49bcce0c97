import numpy as np


def hz_to_mel(f):
    return 2595 * np.log10(1 + f / 700)


def mel_to_hz(m):
    return 700 * (10 ** (m / 2595) - 1)


def filters(rate=8000, n_fft=1024, n_mels=40):
    points = mel_to_hz(np.linspace(hz_to_mel(30), hz_to_mel(rate / 2), n_mels + 2))
    bins = np.floor((n_fft + 1) * points / rate).astype(int)
    bank = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for m in range(1, n_mels + 1):
        left, middle, right = bins[m - 1], bins[m], bins[m + 1]
        for k in range(left, middle):
            bank[m - 1, k] = (k - left) / (middle - left)
        for k in range(middle, right):
            bank[m - 1, k] = (right - k) / (right - middle)
    return bank


def log_mel(signal, n_fft=1024, hop=160):
    frames = np.lib.stride_tricks.sliding_window_view(signal, n_fft)[::hop]
    power = np.abs(np.fft.rfft(frames * np.hanning(n_fft).astype(np.float32), axis=1)) ** 2
    return np.log(power.astype(np.float32) @ filters().T + 1e-6)  #: LINE
