"""Probes of per-example independence, before training: in the model, loss and augmentation."""

from tfdpnorm.audit import model_rows, probe_augmentation, probe_loss, probe_model, warn_unchecked


class RowChecks:
    """Runs the probes of `tfdpnorm.audit` once each, as soon as they have what they need.

    In statistics mode "lot" examples change each other's gradients by design, and the plan has no
    guarantee: nothing is probed.

    Args:
        private: `PrivateModel`.
        augmentations: Tuple of what makes the views of its rows.
        enabled: False leaves the probes out, and the ledger says so.
    """

    def __init__(self, private, augmentations, enabled=True):
        self._private, self._augmentations, self._enabled = private, augmentations, enabled
        self._outputs = None
        self._loss_probed = False

    def check_model(self, x=None):
        """Probes the model and the augmentations, unless that was done.

        Args:
            x: Structure of `tf.TensorSpec` [None, ...]; None for the inputs that the model
                declares.
                A model that declares none is probed later.

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
        """Forgets that the loss was probed: the next one is probed, too."""
        self._loss_probed = False

    def _is_left_out(self):
        if self._private.statistics == "lot":
            return True
        if not self._enabled:
            self._private.ledger.exclude(
                "Per-example independence in the model, its loss and its augmentation: its checks "
                "were switched off."
            )
        return not self._enabled

    def _conclude(self, report):
        if report.findings:
            raise ValueError("\n".join(finding.message for finding in report.findings))
        warn_unchecked(report)
        for sentence in report.unchecked:
            self._private.ledger.exclude(f"Per-example independence, not checked for {sentence}.")
