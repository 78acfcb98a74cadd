"""The training steps of PyTorch and Opacus."""

import warnings

import opacus
import torch
from opacus.grad_sample import register_grad_sampler
from opacus.utils.tensor_utils import unfold2d
from torch import nn
from torch.func import vjp, vmap
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.engines import L2_NORM_CLIP, LEARNING_RATE, NOISE_MULTIPLIER, Prepared
from benchmarks.peers.torch_models import WeightStandardizedConv2d, build_model


def prepare(engine, model_name, x, y):
    """Prepares the step of "torch", "opacus_hooks" or "opacus_ghost"."""
    # Opacus warns that its noise is not cryptographic, which does not matter here.
    warnings.filterwarnings("ignore")
    private = engine != "torch"
    model = build_model(model_name, private)
    parameters = [p for p in model.parameters() if p.requires_grad]
    count = sum(p.numel() for p in parameters)
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE)
    loss = nn.CrossEntropyLoss()
    x = torch.from_numpy(x)
    if x.dim() == 4:
        x = x.permute(0, 3, 1, 2).contiguous()
    y = torch.from_numpy(y).long()
    if private:
        # Only the length of the data set enters: the expected batch size and the accountant's q.
        rows = TensorDataset(torch.zeros(100 * len(x), 1))
        mode = engine.removeprefix("opacus_")
        model, optimizer, *loss_or_nothing, _ = opacus.PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            criterion=loss,
            data_loader=DataLoader(rows, batch_size=len(x)),
            noise_multiplier=NOISE_MULTIPLIER,
            max_grad_norm=L2_NORM_CLIP,
            grad_sample_mode=mode,
        )
        loss = loss_or_nothing[0] if loss_or_nothing else loss

    def run():
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        return float(value.item())

    return Prepared(
        run=run,
        parameters=count,
        versions={"torch": torch.__version__, "opacus": opacus.__version__},
    )


@register_grad_sampler(WeightStandardizedConv2d)
def _weight_standardized_gradients(layer, activations, backprops):
    """Per-example gradients by the standardised kernel, pulled back through the standardisation."""
    patches = unfold2d(
        activations[0],
        kernel_size=(3, 3),
        padding=(1, 1),
        stride=(layer.stride, layer.stride),
        dilation=(1, 1),
    )
    back = backprops.flatten(2)
    by_kernel = torch.einsum("noq,npq->nop", back, patches).unflatten(2, layer.weight.shape[1:])
    _, pull_back = vjp(layer.standardized, layer.weight.detach(), layer.gain.detach())
    by_weight, by_gain = vmap(pull_back)(by_kernel)
    return {layer.weight: by_weight, layer.gain: by_gain, layer.bias: back.sum(2)}
