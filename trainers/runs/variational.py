"""Runs of Ermis & Cemgil (2017): their methods, by the noise of a claim or of a guarantee."""

from tfdpnorm.training import PrivacyNoiseAsDropout
from trainers.runs.private import PrivateRun
from trainers.spec import VariationalSpec


class VariationalRun(PrivateRun):
    """A run of a `VariationalSpec`.

    "dpsgd" and "none" train the plain network; "svi" adds the gradient of a normal prior behind the
    noise, by the optimizer. The network of "dpvd" has layers of variational dropout, which get the
    noise of each update, in the sound reading; the other one is `PrintedRun`.

    Args:
        spec: `VariationalSpec`.
        *arguments: See `PrivateRun`.
        **more: See `PrivateRun`.
    """

    spec_class = VariationalSpec

    def __init__(self, spec, *arguments, **more):
        super().__init__(spec, *arguments, **more)
        if spec.method == "dpvd":
            self.callbacks.append(PrivacyNoiseAsDropout())

    def describe(self):
        """As `PrivateRun`."""
        spec = self.spec
        text = f"{super().describe()}\n  method {spec.method}, clipping {spec.clipping}"
        if spec.calibrated_by is not None:
            text += f"; {_claimed(spec)}"
        return text

    def measured(self):
        """As `PrivateRun`; the epsilon of a claim beside that which holds."""
        spec = self.spec
        claimed = spec.epsilon if spec.calibrated_by is not None else None
        return {**super().measured(), "epsilon_claimed": claimed}

    def spent(self, record):
        """As `PrivateRun`."""
        text = super().spent(record)
        return f"{text}; {_claimed(self.spec)}" if self.spec.calibrated_by is not None else text


def _claimed(spec):
    return (
        f"the noise is that of the paper's {spec.calibrated_by}, which claims epsilon "
        f"{spec.epsilon:.6g}: no guarantee of that"
    )
