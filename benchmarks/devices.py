"""The device that a step is measured on: the processor, or the first GPU that TensorFlow sees.

TensorFlow is imported where a GPU is asked for, so that peers run where it is not installed.
"""

import pathlib
import time

from benchmarks.engines import UnsupportedError
from tfdpnorm import memory

CPU, GPU = "cpu", "gpu"
_DRIVER = pathlib.Path("/proc/driver/nvidia/version")
_MEGABYTE = 2**20


def environment(device):
    """Returns the variables that a worker's process needs for a device, a dict."""
    if device == CPU:
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    # Several engines are there at once, and each would take all of its memory.
    return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"}


class Processor:
    """Measures work and memory of this process on the processor.

    Attributes:
        description: Dict of what rows say of the device: its name, and the driver's version.
        versions: Dict of the versions of what TensorFlow reaches it by.
    """

    def __init__(self):
        self.description = {"device": "CPU", "driver": None}
        self.versions = {}

    def start_peak_anew(self):
        """Forgets the peak so far; returns the megabytes that are held, None if unknown."""
        if not memory.is_measurable():
            return None
        memory.start_peak_anew()
        return memory.resident_megabytes()

    def peak_megabytes(self):
        """Returns the peak since `start_peak_anew`."""
        return memory.peak_megabytes()

    def seconds(self):
        """Returns the seconds of work so far: of all cores."""
        return time.process_time()


class Gpu:
    """Measures time and memory of steps on the first GPU, as `Processor` does on the processor.

    Raises:
        UnsupportedError: if TensorFlow sees none.
    """

    def __init__(self):
        import tensorflow as tf

        from tfdpnorm.keras_compat.devices_and_precision import gpu_name

        self._config = tf.config.experimental
        name, built = gpu_name(), tf.sysconfig.get_build_info()
        if name is None:
            raise UnsupportedError("TensorFlow sees no GPU")
        self.description = {"device": name, "driver": _driver()}
        self.versions = {
            part: built[f"{part}_version"]
            for part in ("cuda", "cudnn")
            if f"{part}_version" in built
        }

    def start_peak_anew(self):
        """As `Processor`, of the GPU's memory."""
        self._config.reset_memory_stats("GPU:0")
        return self._config.get_memory_info("GPU:0")["current"] / _MEGABYTE

    def peak_megabytes(self):
        """As `Processor`, of the GPU's memory."""
        return self._config.get_memory_info("GPU:0")["peak"] / _MEGABYTE

    def seconds(self):
        """Returns the seconds on the clock: what the processor does meanwhile does not count."""
        return time.perf_counter()


def _driver():
    """The version of NVIDIA's driver, as text; None where Linux does not say."""
    try:
        first = _DRIVER.read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    # "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ..."
    return next((word for word in first.split() if word[:1].isdigit() and "." in word), None)
