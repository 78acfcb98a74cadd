"""What the rules of layers with an activation have in common."""

from tensorflow import keras

from tfdpnorm.gradients.rules.registry import Rule
from tfdpnorm.keras_compat.exchange import exchanged


class BeforeActivationRule(Rule):
    """For layers that give activation(z): watches z, and remembers the inputs."""

    def forward(self, layer, call, watch, inputs, *args, **kwargs):
        activation = layer.activation
        with exchanged(layer, activation=keras.activations.linear):
            z = call(inputs, *args, **kwargs)
        return activation(watch(z)), inputs
