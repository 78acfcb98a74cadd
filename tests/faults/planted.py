"""Faults between what an accountant is told and what training does, planted to see who notices.

Each is a context in which this library's own code is faulty; the plan, and so the claim, stay as
they are. Models are to be made, compiled and trained inside of it.
"""

import contextlib
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import tensorflow as tf

from tfdpnorm.data import PoissonBatches
from tfdpnorm.gradients import clipping
from tfdpnorm.noise.gaussian import GaussianNoise
from tfdpnorm.training import noised_statistics
from tfdpnorm.training import update as update_of_training
from tfdpnorm.training.update import Update
from tfdpnorm.training.views import Views

VIEWS = 2


class Fault(NamedTuple):
    """A fault to plant.

    Attributes:
        name: What is wrong, in words.
        planted: Function that returns the context of it.
        needs: Dict of fields of `AuditSpec` without which the fault does nothing.
        noise: The noise that training really adds, over the one claimed; 0 where something is
            released without any; None where theory has no figure.
        signal: What an example really adds at most, over C.
        rate: The sampling rate over the one claimed.
    """

    name: str
    planted: Callable
    needs: dict = {}
    noise: float | None = 1.0
    signal: float = 1.0
    rate: float = 1.0


@contextlib.contextmanager
def weak_noise(factor=1.2):
    """The noise is smaller than z C by a factor."""
    noised = GaussianNoise.noised

    def weaker(self, sums, stddev, update):
        return noised(self, sums, stddev / factor, update)

    with mock.patch.object(GaussianNoise, "noised", weaker):
        yield


@contextlib.contextmanager
def repeated_noise():
    """Each two updates get the same noise, whatever they release."""
    noised = GaussianNoise.noised
    by_number = GaussianNoise(generator="philox")  # OpenSSL's words never come twice

    def repeated(self, sums, stddev, update):
        del self
        noise = noised(by_number, [tf.zeros_like(s) for s in sums], stddev, update // 2)
        return [s + n for s, n in zip(sums, noise, strict=True)]

    with mock.patch.object(GaussianNoise, "noised", repeated):
        yield


@contextlib.contextmanager
def loose_clip(factor=1.5):
    """Gradients are clipped to more than C."""
    factors = clipping.clip_factors

    def looser(squared_norms, l2_norm_clip, *args):
        return factors(squared_norms, factor * l2_norm_clip, *args)

    with mock.patch.object(clipping, "clip_factors", looser):
        yield


@contextlib.contextmanager
def larger_lots(factor=2.0):
    """Examples enter lots with more than the probability q that is claimed."""
    rate = PoissonBatches.sampling_rate.fget
    larger = property(lambda self: min(1.0, factor * rate(self)))
    with mock.patch.object(PoissonBatches, "sampling_rate", larger):
        yield


@contextlib.contextmanager
def pull_back_without_noise():
    """The pull-back goes through the gradients by gamma and beta as they were before the noise."""
    clipped, pull_back, exact = Update.clipped, update_of_training.pull_back, {}

    def remembering(self, lot, **options):
        found = clipped(self, lot, **options)
        weights = found.weights or [1.0] * len(found.sums)
        for variable, s, weight in zip(found.measured, found.sums, weights, strict=True):
            exact[variable.ref()] = s / weight
        return found

    def unnoised(tape, statistics, gradient_of, trained):
        return pull_back(tape, statistics, lambda v: exact[v.ref()], trained)

    with (
        mock.patch.object(Update, "clipped", remembering),
        mock.patch.object(update_of_training, "pull_back", unnoised),
    ):
        yield


@contextlib.contextmanager
def views_one_by_one():
    """Each view of an example is clipped by itself, and all enter the sum."""
    make, clipped = Update.compile, Update.clipped

    def of_single_views(self, *settings):
        self.count = self.views.multiplicity
        self.views = Views(*self.views.augmentations)
        make(self, *settings)

    def of_each_view(self, lot, **options):
        parts = [clipped(self, lot, **options) for _ in range(self.count)]
        sums = [tf.add_n(same) for same in zip(*(part.sums for part in parts), strict=True)]
        return parts[0]._replace(sums=sums)

    with (
        mock.patch.object(Update, "compile", of_single_views),
        mock.patch.object(Update, "clipped", of_each_view),
    ):
        yield


@contextlib.contextmanager
def actual_lot_size():
    """Sums are divided by the number of examples in the lot, in place of the expected one."""
    clipped, noised = Update.clipped, Update.noised

    def counting(self, lot, **options):
        self.size = tf.maximum(tf.reduce_sum(lot.mask), 1.0)
        return clipped(self, lot, **options)

    def divided(self, clipped, noise, update):
        factor = self._plan.expected_batch_size / self.size
        return [g * tf.cast(factor, g.dtype) for g in noised(self, clipped, noise, update)]

    with (
        mock.patch.object(Update, "clipped", counting),
        mock.patch.object(Update, "noised", divided),
    ):
        yield


@contextlib.contextmanager
def averages_without_noise():
    """Running averages of noised statistics move by the lot's own sums."""
    kind = noised_statistics.NoisedStatistics
    joined, update_averages = kind.joined, kind.update_averages

    def remembering(self, *args):
        found = joined(self, *args)
        self.exact = [s / w for s, w in zip(found[0], found[2], strict=True)]
        return found

    def unnoised(self, released):
        update_averages(self, self.exact)

    with (
        mock.patch.object(kind, "joined", remembering),
        mock.patch.object(kind, "update_averages", unnoised),
    ):
        yield


NO_FAULT = Fault("no fault", contextlib.nullcontext)
FAULTS = (
    Fault("noise z / 1.2", weak_noise, noise=1 / 1.2),
    Fault("clipped at 1.5 C", loose_clip, signal=1.5),
    Fault("sampled with 2 q", larger_lots, rate=2.0),
    Fault("each noise used twice", repeated_noise, noise=0.0),
    Fault(
        "pull-back without noise",
        pull_back_without_noise,
        {"norm": "public_batch", "statistics": "public"},
        noise=None,
    ),
    Fault(
        f"{VIEWS} views clipped one by one",
        views_one_by_one,
        {"augmentation_multiplicity": VIEWS},
        signal=VIEWS,
    ),
    Fault("divided by the lot's own size", actual_lot_size, noise=None),
    Fault(
        "running averages without noise",
        averages_without_noise,
        {"norm": "noised_batch"},
        noise=0.0,
    ),
)
