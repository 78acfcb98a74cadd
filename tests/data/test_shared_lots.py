"""Processes that share a key draw the same batches, and gather each its share."""

import numpy as np

from tests.each import each
from tfdpnorm.data import poisson_batches
from tfdpnorm.data.shared_lots import SharedLots, share
from tfdpnorm.privacy.slots import Slots

KEY = bytes(range(32))
N = 200


def lots(index, count, key=KEY, updates=3, **options):
    x = np.arange(1, N + 1, dtype=np.float32)
    shared = SharedLots(key, index, count)
    batches = poisson_batches(x, expected_batch_size=40)
    dataset = batches.as_dataset(Slots(4, 24), shared=shared, **options)
    return [lot.x.numpy() for lot in dataset.take(updates)]


@each("count, options", [(2, {}), (3, {"insecure_seed": 5})])
def test_shares_together_are_the_lot_of_one_process(count, options):
    whole = lots(0, 1, **options)
    shares = [lots(index, count, **options) for index in range(count)]
    for update, lot in enumerate(whole):
        np.testing.assert_array_equal(np.concatenate([s[update] for s in shares]), lot)
        members = lot[lot > 0]
        assert len(set(members)) == len(members) > 15


def test_members_and_slots_depend_on_the_key_and_the_update():
    words = {
        tuple(SharedLots(key, 0, 1).bits(update)(8).tolist())
        for key in (KEY, bytes(32), KEY[::-1])
        for update in range(4)
    }
    assert len(words) == 12


def test_draws_of_an_update_differ():
    words = SharedLots(KEY, 0, 1).bits(0)
    drawn = np.concatenate([words(1000), words(1000), words(10)])
    assert len(set(drawn.tolist())) == 2010
    # As uniform as words of the system: each bit is set in half of them.
    bits = np.unpackbits(drawn.view(np.uint8)).reshape(-1, 64)
    assert (np.abs(bits.mean(axis=0) - 0.5) < 5 * 0.5 / np.sqrt(len(drawn))).all()


def test_members_are_drawn_with_the_sampling_rate():
    sizes = [np.count_nonzero(lot) for lot in lots(0, 1, updates=400)]
    assert abs(np.mean(sizes) - 40) < 5 * np.sqrt(40 * 0.8 / 400)
    assert 0.8 < np.var(sizes) / (40 * 0.8) < 1.25


@each("of", [1, 2, 3, 7])
def test_shares_follow_each_other(of):
    for count in (0, 1, 5, 7, 16):
        ends = [share(number, of, count) for number in range(of)]
        assert ends[0][0] == 0 and ends[-1][1] == count
        assert all(a[1] == b[0] for a, b in zip(ends, ends[1:], strict=False))
        sizes = [end - first for first, end in ends]
        assert max(sizes) - min(sizes) <= 1
