"""`validation_data` of `fit`, and rows that callbacks evaluate, are no training rows."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow import keras

from tests.each import each

REFUSED = "training examples, but {} of {} are"


def dataset(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(40).batch(7)


class Batches(keras.utils.Sequence):
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return 5

    def __getitem__(self, i):
        return self.x[8 * i : 8 * i + 8], self.y[8 * i : 8 * i + 8]


def generator(x, y):
    while True:
        yield x, y


FORMS = {
    "pair": lambda x, y: (x, y),
    "list": lambda x, y: [x, y],
    "weighted": lambda x, y: (x, y, np.ones(len(x))),
    "lists": lambda x, y: (x.tolist(), y.tolist()),
    "tensors": lambda x, y: (tf.constant(x), tf.constant(y)),
    "double": lambda x, y: (x.astype(np.float64), y),
    "one more axis": lambda x, y: (x[:, :, np.newaxis], y),
    "list of one": lambda x, y: ([x], y),
    "dataset": dataset,
    "filtered": lambda x, y: dataset(x, y).filter(lambda *_: True),
    "in a tuple": lambda x, y: (dataset(x, y),),
    "sequence": Batches,
}


@pytest.fixture
def trained(compiled, build):
    """Returns a function that compiles a private model."""

    def make(model=None, **settings):
        made = compiled(model or build(), **settings)
        return made

    return make


def test_training_rows_in_any_form_are_rejected(trained, data):
    private = trained()

    @each("form", FORMS)
    def check(form):
        rows, is_public = FORMS[form](*data), len(form) % 2 == 0
        with pytest.raises(ValueError, match=REFUSED.format(40, 40)):
            private.fit(*data, validation_data=rows, validation_is_public=is_public, verbose=0)

    check()
    assert private.ledger.updates == 0


@each("form", ["pair", "dataset", "sequence"])
def test_a_part_of_the_training_rows_is_enough(form, trained, data):
    x = data[0] + 1
    x[[3, 38]] = data[0][[17, 5]]
    options = {"callbacks": [keras.callbacks.EarlyStopping("val_loss")], "validation_freq": 2}
    with pytest.raises(ValueError, match=REFUSED.format(2, 40)):
        trained().fit(*data, validation_data=FORMS[form](x, data[1]), verbose=0, **options)


def test_rows_of_earlier_and_later_fits_are_compared(trained, data):
    x, y = data
    private = trained()
    options = {"steps_per_epoch": 1, "epochs": 1, "verbose": 0}
    private.fit(x, y, validation_data=(x + 1, y), **options)
    private.fit(x + 2, y, validation_data=dataset(x + 3, y), **options)
    for training, validation in ((x + 4, x), (x + 1, x + 5), (x + 3, None), (x + 6, x + 2)):
        rows = None if validation is None else (validation, y)
        with pytest.raises(ValueError, match=REFUSED.format(40, 40)):
            private.fit(training, y, validation_data=rows, **options)
    assert private.ledger.updates == 2
    private.fit(x + 2, y, validation_data=(x + 1, y), **options)


@each(
    "rows",
    [
        generator,
        lambda x, y: (generator(x, y),),
        lambda x, y: dataset(x, y).repeat(),
        lambda x, y: dataset(x, y).filter(lambda *_: True),
        lambda x, y: (tf.sparse.from_dense(x), y),
    ],
)
def test_rows_that_cannot_be_read_are_rejected(rows, trained, data):
    other = rows(data[0] + 1, data[1])
    with pytest.raises(ValueError, match="^Expected validation rows") as e:
        trained().fit(*data, validation_data=other, validation_steps=2, verbose=0)
    assert "\n" not in str(e.value)


@each("of", [lambda x: x[:, :3], lambda x: {"a": x, "b": x}])
def test_rows_of_another_form_cannot_be_compared(of, trained, data):
    with pytest.raises(ValueError, match="cannot be checked"):
        trained().fit(*data, validation_data=(of(data[0]), data[1]), verbose=0)


class Evaluates(keras.callbacks.Callback):
    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def on_epoch_end(self, epoch, logs=None):
        self.model.evaluate(*self.rows, verbose=0)


def test_data_that_callbacks_evaluate_are_checked(trained, data):
    x, y = data
    private = trained()
    options = {"steps_per_epoch": 1, "epochs": 1, "verbose": 0}
    private.fit(x, y, callbacks=[Evaluates((x + 1, y))], **options)
    for rows in ((x, y), (dataset(x, y),)):
        with pytest.raises(ValueError, match=REFUSED.format(40, 40)):
            private.fit(x, y, callbacks=[Evaluates(rows)], **options)
    private.evaluate(x, y, 10, 0)  # nothing of the run depends on it
