"""Operations that call functions, hold lists or draw random numbers."""

import tensorflow as tf

from tests.keras_compat.converters.case import RAW, Case, boolean, of, positive, real, whole

_FLOAT = {"element_dtype": tf.float32}


def _called(x, y):
    """By a function of its own."""
    return tf.function(lambda x, y: tf.sin(x) * y + tf.pad(x, [[1, 0]])[1:])(x, y)


def _calling_with_state(x, y):
    tf.debugging.assert_less(x, 100.0)
    return _called(x, y)


def _chosen(choice, x, y):
    return tf.cond(choice, lambda: tf.sin(x) * y, lambda: x - y**2)


def _chosen_with_state(choice, x, y):
    def first():
        tf.debugging.assert_less(x, 100.0)
        return tf.sin(x) * y

    return tf.cond(choice, first, lambda: x - y**2)


def _one_of_three(choice, x, y):
    return tf.switch_case(choice, [lambda: x * y, lambda: x - y, lambda: tf.sin(x) + y])


def _one_of_three_with_state(choice, x, y):
    def first():
        tf.debugging.assert_less(x, 100.0)
        return x * y

    return tf.switch_case(choice, [first, lambda: x - y, lambda: tf.sin(x) + y])


def _repeated(count, x, y):
    """As often as the row says."""
    return tf.while_loop(
        lambda i, x: i < count, lambda i, x: (i + 1, tf.sin(x) * y), (tf.zeros_like(count), x)
    )[1]


def _repeated_with_state(count, x, y):
    def body(i, x):
        tf.debugging.assert_less(x, 100.0)
        return i + 1, tf.sin(x) * y

    return tf.while_loop(lambda i, x: i < count, body, (tf.zeros_like(count), x))[1]


def _list_of(x):
    return RAW.TensorListFromTensor(tensor=x, element_shape=list(x.shape[1:]))


def _stacked(handle, shape, count=-1):
    return RAW.TensorListStack(
        input_handle=handle, element_shape=shape, element_dtype=tf.float32, num_elements=count
    )


def _written(x, y):
    handle = RAW.TensorListReserve(element_shape=[2], num_elements=3, element_dtype=tf.float32)
    for i, value in enumerate((x, y, x * y)):
        handle = RAW.TensorListSetItem(input_handle=handle, index=i, item=value)
    return _stacked(handle, [2])


def _pushed(x, y):
    handle = RAW.EmptyTensorList(element_shape=[2], max_num_elements=4, element_dtype=tf.float32)
    for value in (x, y, x * y):
        handle = RAW.TensorListPushBack(input_handle=handle, tensor=value)
    handle, last = RAW.TensorListPopBack(input_handle=handle, element_shape=[2], **_FLOAT)
    return [last, _stacked(handle, [2])]


def _read(x, i):
    return RAW.TensorListGetItem(input_handle=_list_of(x), index=i, element_shape=[2], **_FLOAT)


def _scattered(x, y):
    handle = RAW.TensorListScatterIntoExistingList(
        input_handle=_list_of(x), tensor=y, indices=[2, 0]
    )
    return _stacked(handle, [2])


def _length(x):
    return RAW.TensorListLength(input_handle=_list_of(x))


def _checked(x, y):
    with tf.control_dependencies([tf.debugging.assert_less(x, 100.0)]):
        return x * y


_MANY = [40, 100]
_SEEDS = {"seed": 1, "seed2": 2}


def _drawn(call, *inputs):
    """Mean and standard deviation of many draws: the draws of a loop are other ones."""

    def moments(x, *inputs):
        drawn = tf.stop_gradient(tf.cast(call(*inputs), tf.float32))
        return x + tf.stack([tf.reduce_mean(drawn), tf.math.reduce_std(drawn)])

    return [Case(moments, (real(), *inputs), tolerance=0.1)]


def _seeded(call, *inputs):
    """The same numbers for the same seeds."""
    seeds = whole(2, high=99)
    return [Case(call, (seeds, *inputs), ((0,), tuple(range(len(inputs) + 1))), gradient=False)]


_IN_THE_LIST = whole(high=3)
_THREE = (real(3), real(3))


def _in_graph(call):
    """A function that is traced at each call: a gradient changes what is traced."""
    return lambda *inputs: tf.function(call, autograph=False)(*inputs)


def _chosen_by(choice, call, *with_gradients):
    """Gradients if all rows choose alike; TensorFlow has none otherwise."""
    call = _in_graph(call)
    return [
        *(Case(call, (choice, *_THREE), (of_rows,)) for of_rows in with_gradients),
        Case(call, (choice, *_THREE), ((0,), (0, 1, 2)), gradient=False),
    ]


_SAME_FOR_ALL = (1, 2)
_IF = _chosen_by(boolean(), _chosen, _SAME_FOR_ALL)

CONTROL_FLOW = {
    "PartitionedCall": [Case(_in_graph(_called), _THREE)],
    "StatefulPartitionedCall": [Case(_in_graph(_calling_with_state), _THREE)],
    "StatelessIf": _IF,
    "OptionalFromValue": _IF,
    "OptionalGetValue": _IF,
    "If": _chosen_by(boolean(), _chosen_with_state),
    "StatelessCase": _chosen_by(whole(), _one_of_three, _SAME_FOR_ALL),
    "Case": _chosen_by(whole(), _one_of_three_with_state, _SAME_FOR_ALL),
    "StatelessWhile": _chosen_by(whole(low=1, high=4), _repeated, _SAME_FOR_ALL),
    "While": _chosen_by(whole(low=1, high=4), _repeated_with_state, _SAME_FOR_ALL),
    "Assert": [Case(_checked, _THREE)],
    **dict.fromkeys(
        ("TensorListReserve", "TensorListSetItem", "TensorListStack"),
        [Case(_written, (real(2), real(2)))],
    ),
    **dict.fromkeys(
        ("TensorListPushBack", "TensorListPopBack"), [Case(_pushed, (real(2), real(2)))]
    ),
    "TensorListFromTensor": [Case(_read, (real(3, 2), _IN_THE_LIST), ((0,),), gradient=False)],
    "TensorListGetItem": [Case(_read, (real(3, 2), _IN_THE_LIST), ((0,), (1,)), gradient=False)],
    "TensorListScatterIntoExistingList": [
        Case(_scattered, (real(3, 2), real(2, 2)), gradient=False)
    ],
    "TensorListLength": [Case(_length, (real(3, 2),))],
    # random numbers
    **{
        name: _drawn(of(name, shape=_MANY, dtype=tf.float32, **_SEEDS))
        for name in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal")
    },
    "RandomUniformInt": _drawn(of("RandomUniformInt", shape=_MANY, minval=0, maxval=3, **_SEEDS)),
    "RandomGamma": _drawn(of("RandomGamma", "alpha", shape=_MANY, **_SEEDS), positive()),
    "RandomPoissonV2": _drawn(of("RandomPoissonV2", "rate", shape=_MANY, **_SEEDS), positive()),
    "Multinomial": _drawn(of("Multinomial", "logits", num_samples=4000, **_SEEDS), real(1, 3)),
    **{
        name: _seeded(of(name, "seed", shape=[3], dtype=tf.float32))
        for name in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal")
    },
    "StatelessRandomUniformInt": _seeded(
        of("StatelessRandomUniformInt", "seed", shape=[3], minval=0, maxval=9)
    ),
    "StatelessRandomUniformFullInt": _seeded(
        of("StatelessRandomUniformFullInt", "seed", shape=[3], dtype=tf.int32)
    ),
    "StatelessMultinomial": _seeded(
        of("StatelessMultinomial", "seed", "logits", num_samples=5), real(2, 3)
    ),
    "StatelessRandomBinomial": _seeded(
        of("StatelessRandomBinomial", "seed", "counts", "probs", shape=[5]),
        positive(),
        real(low=0.1, high=0.9),
    ),
    "StatelessRandomGammaV2": _seeded(
        of("StatelessRandomGammaV2", "seed", "alpha", shape=[5]), positive()
    ),
    "StatelessRandomPoisson": _seeded(
        of("StatelessRandomPoisson", "seed", "lam", shape=[5], dtype=tf.float32), positive()
    ),
    "StatelessParameterizedTruncatedNormal": _seeded(
        of(
            "StatelessParameterizedTruncatedNormal",
            "seed",
            "means",
            "stddevs",
            "minvals",
            "maxvals",
            shape=[5],
        ),
        real(),
        positive(),
        real(low=-3, high=-2),
        real(low=2, high=3),
    ),
}
