"""The models of `benchmarks.workloads` in PyTorch, with as many parameters.

Inputs are channels-first, as is usual there. Layers are those that Opacus knows, so that one
definition serves the ordinary and the private step, except for the LSTM.
"""

import math

import torch
from opacus.layers import DPLSTM
from torch import nn
from torch.nn import functional


def build_model(name, private=False):
    """Builds a model.

    Args:
        name: Name in `benchmarks.workloads.WORKLOADS`.
        private: Whether Opacus is to train it: its LSTM is not PyTorch's, which is faster.
    """
    torch.manual_seed(0)
    if name == "bilstm":
        return BiLSTM(DPLSTM if private else nn.LSTM)
    return {
        "lenet5": lenet5,
        "mlp": mlp,
        "resnet9": resnet9,
        "wrn_16_4": wrn_16_4,
        "transformer": Transformer,
    }[name]()


def lenet5():
    """LeNet-5 without normalisation."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 10),
    )


def mlp():
    """784-1000-10."""
    return nn.Sequential(nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))


class Residual(nn.Module):
    """x + path(x), or skip(x) + path(x)."""

    def __init__(self, path, skip=None):
        super().__init__()
        self.path = path
        self.skip = skip

    def forward(self, x):
        return self.path(x) + (x if self.skip is None else self.skip(x))


def resnet9():
    """ResNet-9 with group normalisation."""

    def block(inputs, outputs, pool=False):
        convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        layers = [convolution, nn.GroupNorm(math.gcd(32, outputs), outputs), nn.Mish()]
        return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pool else []))

    def residual(channels):
        return Residual(nn.Sequential(block(channels, channels), block(channels, channels)))

    return nn.Sequential(
        block(3, 64),
        block(64, 128, pool=True),
        residual(128),
        block(128, 256, pool=True),
        block(256, 256, pool=True),
        residual(256),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )


class WeightStandardizedConv2d(nn.Module):
    """3x3 convolution with a standardised kernel, a gain and a bias for each output channel."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3) / math.sqrt(9 * inputs))
        self.gain = nn.Parameter(torch.ones(outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.stride = stride

    def standardized(self, weight, gain):
        """The kernel that is convolved with."""
        variance, mean = torch.var_mean(weight, (1, 2, 3), correction=0, keepdim=True)
        fan_in = weight[0].numel()
        scale = torch.rsqrt(torch.clamp(variance * fan_in, min=1e-4))
        return (weight - mean) * scale * gain[:, None, None, None]

    def forward(self, x):
        weight = self.standardized(self.weight, self.gain)
        return functional.conv2d(x, weight, self.bias, stride=self.stride, padding=1)


def wrn_16_4():
    """WRN-16-4 with group normalisation and weight-standardised convolutions."""

    def activated(channels):
        return [nn.GroupNorm(math.gcd(16, channels), channels), nn.ReLU()]

    def block(inputs, outputs, stride, with_skip):
        path = nn.Sequential(
            *activated(inputs),
            WeightStandardizedConv2d(inputs, outputs, stride),
            *activated(outputs),
            WeightStandardizedConv2d(outputs, outputs, 1),
        )
        skip = nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False) if with_skip else None
        return Residual(path, skip)

    layers = [WeightStandardizedConv2d(3, 16, 1)]
    inputs = 16
    for outputs, stride in ((64, 1), (128, 2), (256, 2)):
        layers += [block(inputs, outputs, stride, True), block(outputs, outputs, 1, False)]
        inputs = outputs
    layers += [*activated(256), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)]
    return nn.Sequential(*layers)


class BiLSTM(nn.Module):
    """Word embedding, bidirectional LSTM, one dense layer.

    Args:
        lstm: `torch.nn.LSTM`, or Opacus' `DPLSTM`.
    """

    def __init__(self, lstm):
        super().__init__()
        self.embedding = nn.Embedding(10_000, 100)
        self.lstm = lstm(100, 64, batch_first=True, bidirectional=True)
        self.logits = nn.Linear(128, 4)
        # Keras has one bias a gate. The second one here stays what it is, zero.
        for name, parameter in self.lstm.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(parameter)
                parameter.requires_grad_(False)

    def forward(self, x):
        _, (last, _) = self.lstm(self.embedding(x))
        return self.logits(torch.cat([last[0], last[1]], dim=1))


class Attention(nn.Module):
    """Multi-head self-attention of dense layers, which Opacus knows."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        split = [
            layer(x).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        ]
        mixed = functional.scaled_dot_product_attention(*split)
        return self.output(mixed.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """Word embedding, one pre-norm block, the mean over words, one dense layer."""

    def __init__(self, words=64, width=128):
        super().__init__()
        self.embedding = nn.Embedding(1_000, width)
        angles = torch.arange(words)[:, None] / 10_000.0 ** (torch.arange(0, width, 2) / width)
        # No buffer: Opacus rejects models that have one.
        self.positions = torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
        attention = nn.Sequential(nn.LayerNorm(width, eps=1e-3), Attention(width, 4))
        dense = nn.Sequential(
            nn.LayerNorm(width, eps=1e-3), nn.Linear(width, 512), nn.GELU(), nn.Linear(512, width)
        )
        self.block = nn.Sequential(Residual(attention), Residual(dense))
        self.logits = nn.Linear(width, 4)

    def forward(self, x):
        return self.logits(self.block(self.embedding(x) + self.positions).mean(1))
