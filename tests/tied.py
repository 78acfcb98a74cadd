"""Layers that share a weight."""

from tfdpnorm.keras_compat.variables import KERAS_3


def share_kernel(first, second):
    """Lets a built layer have the kernel of another one."""
    if not KERAS_3:
        second.kernel = first.kernel
        return
    second._tracker.unlock()
    second._untrack_variable(second._kernel)
    second._kernel = first._kernel
    second._tracker.lock()
