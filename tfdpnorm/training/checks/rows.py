"""Whether examples meet in the model, the loss or the augmentation: asked before training."""

from tfdpnorm.audit import model_rows, probe_augmentation, probe_loss, probe_model, warn_unchecked


class RowChecks:
    """Runs the probes of `tfdpnorm.audit` once each, as soon as what they need is there.

    In statistics mode "lot" rows meet by design, and the plan has no guarantee: nothing is probed.

    Args:
        private: `PrivateModel`.
        augmentations: What makes views of its rows.
        enabled: False leaves the probes out, which the ledger then says.
    """

    def __init__(self, private, augmentations, enabled=True):
        self._private, self._augmentations, self._enabled = private, augmentations, enabled
        self._outputs = None
        self._loss_probed = False

    def check_model(self, x=None):
        """Probes the model and the augmentations, unless that was done.

        Args:
            x: Structure of `tf.TensorSpec` [None, ...]; None for what the model says of its inputs,
                in which case a model that says nothing is left for later.

        Raises:
            ValueError: listing what was found.
        """
        if self._outputs is not None or self._is_left_out():
            return
        rows = model_rows(self._private, x)
        if rows is None:
            return
        report = probe_model(self._private, rows)
        for augmentation in self._augmentations:
            report += probe_augmentation(augmentation, rows)
        self._outputs = report.outputs or False
        self._conclude(report)

    def check_loss(self, loss, y):
        """Probes a loss, unless that was done since `forget_loss`.

        Args:
            loss: Function (y, predictions) -> [rows].
            y: Structure of `tf.TensorSpec` [None, ...].

        Raises:
            ValueError: listing what was found.
        """
        if self._loss_probed or self._is_left_out() or not self._outputs:
            return
        self._loss_probed = True
        self._conclude(probe_loss(loss, self._outputs, y))

    def forget_loss(self):
        """Has the next loss probed again."""
        self._loss_probed = False

    def _is_left_out(self):
        if self._private.statistics == "lot":
            return True
        if not self._enabled:
            self._private.ledger.exclude(
                "Whether examples meet in the model, its loss or its augmentation: the checks for "
                "it were switched off."
            )
        return not self._enabled

    def _conclude(self, report):
        if report.findings:
            raise ValueError("\n".join(finding.message for finding in report.findings))
        warn_unchecked(report)
        for sentence in report.unchecked:
            self._private.ledger.exclude(f"Whether examples meet, not checked for {sentence}.")
