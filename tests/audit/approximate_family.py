"""The curves of (epsilon, delta)-DP, which bounds by sharper curves are compared with."""

import dataclasses

from tfdpnorm.audit.trade_offs import Lines


@dataclasses.dataclass(frozen=True)
class ApproximateFamily:
    """The curves of (epsilon, delta)-DP with this delta: an audit by these assumes nothing else.

    Attributes:
        delta: 0 <= delta < 1.
    """

    delta: float

    def curve(self, leak):
        """The curve of epsilon = `leak` >= 0."""
        return Lines([leak], [self.delta])

    def epsilon(self, leak):
        """The epsilon of that curve."""
        return leak
