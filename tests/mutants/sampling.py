"""Faults in the lots: their members, how often, in which slots, and the random numbers."""

from tests.mutants.mutant import fault, tests_in

_SAMPLING = "tfdpnorm/data/poisson.py"
_POISSON = "tfdpnorm/data/poisson.py"
_SLOTS = "tests/data/test_random_slots.py"
_in_slots = tests_in("tests/privacy/test_slots.py", "test_slots_suffice_and_are_the_fewest")

MUTANTS = (
    fault(
        "lots-of-fixed-size",
        _SAMPLING,
        "    mean = sampling_rate * num_examples\n",
        "    mean = sampling_rate * num_examples\n"
        "    rng = np.random.default_rng(bits(4))\n"
        "    chosen = rng.choice(num_examples, round(mean), replace=False)\n"
        "    return np.sort(chosen).astype(np.int64)\n",
        "The sampling is not the one that the accountant assumes: epsilon does not hold.",
        tests_in("tests/data/test_poisson_sampling.py", "test_lot_sizes_are_binomial"),
    ),
    fault(
        "sampling-rate-tenth-more",
        _SAMPLING,
        "np.log1p(-sampling_rate)",
        "np.log1p(-min(1.1 * sampling_rate, 0.99))",
        "Examples are in more lots than the plan counts.",
        tests_in(
            "tests/data/test_poisson_sampling.py",
            "test_gaps_at_the_edges_of_the_uniform",
            "test_lot_sizes_are_binomial",
        ),
    ),
    fault(
        "first-example-never-drawn",
        _SAMPLING,
        "last, parts = -1, []",
        "last, parts = 0, []",
        "Example 0 is in no lot, and every other one is moved by a place.",
        tests_in("tests/data/test_poisson_sampling.py", "test_gaps_at_the_edges_of_the_uniform"),
    ),
    fault(
        "gap-never-zero",
        _SAMPLING,
        "gaps = np.minimum(gaps, num_examples)",
        "gaps = np.clip(gaps, 1, num_examples)",
        "Neighbours are never in a lot together: examples do not enter independently.",
        tests_in("tests/data/test_poisson_sampling.py", "test_gaps_at_the_edges_of_the_uniform"),
    ),
    fault(
        "lots-from-a-seed",
        _SAMPLING,
        "np.frombuffer(os.urandom(8 * count), dtype=np.uint64)",
        "np.random.default_rng(0).integers(2**64, size=count, dtype=np.uint64)",
        "Everybody knows who is in which lot, and all lots are the same.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_secret_lots_never_repeat_whatever_is_seeded"
        ),
    ),
    fault(
        "lots-from-numpy-global",
        _SAMPLING,
        "np.frombuffer(os.urandom(8 * count), dtype=np.uint64)",
        "np.random.randint(0, 2**64, size=count, dtype=np.uint64)",
        "Whoever knows the global seed knows the lots.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_secret_lots_never_repeat_whatever_is_seeded"
        ),
    ),
    fault(
        "same-lots-each-epoch",
        _POISSON,
        ".map(gather).prefetch(2)",
        ".map(gather).take(max(1, round(1 / sampling_rate))).cache().repeat()",
        "From the second epoch on sampling hides nothing.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_secret_lots_never_repeat_whatever_is_seeded"
        ),
    ),
    fault(
        "lot-cut-to-a-physical-batch",
        _POISSON,
        "rows = poisson_rows(num_examples, sampling_rate, bits)",
        "rows = poisson_rows(num_examples, sampling_rate, bits)[: slots.rows]",
        "The last examples are drawn less often, by who else is in the lot.",
        tests_in(
            "tests/data/test_poisson_batches.py", "test_a_lot_that_does_not_fit_is_kept_whole"
        ),
    ),
    fault(
        "slots-from-the-front",
        _POISSON,
        "placed[random_slots(len(rows), len(placed), bits)] = rows",
        "placed[: len(rows)] = rows",
        "Whether an example was drawn moves all later ones: amplification by sampling fails.",
        tests_in(
            _SLOTS,
            "test_removing_an_example_leaves_the_slots_of_others",
            "test_each_slot_is_equally_likely_for_each_example",
        ),
    ),
    fault(
        "slots-in-the-order-of-examples",
        _POISSON,
        "placed[random_slots(len(rows), len(placed), bits)] = rows",
        "placed[np.sort(random_slots(len(rows), len(placed), bits))] = rows",
        "An example's slot tells how many before it were drawn.",
        tests_in(
            _SLOTS,
            "test_each_pair_of_slots_is_equally_likely",
            "test_removing_an_example_leaves_the_slots_of_others",
        ),
    ),
    fault(
        "slots-in-the-first-physical-batches",
        _POISSON,
        "random_slots(len(rows), len(placed), bits)",
        "random_slots(len(rows), -(-len(rows) // slots.rows) * slots.rows, bits)",
        "The physical batches in use tell how many examples were drawn.",
        tests_in(
            _SLOTS,
            "test_slots_do_not_depend_on_how_many_are_drawn",
            "test_removing_an_example_leaves_the_slots_of_others",
            "test_each_slot_is_equally_likely_for_each_example",
        ),
    ),
    fault(
        "slots-kept-between-updates",
        _POISSON,
        "placed[random_slots(len(rows), len(placed), bits)] = rows",
        "kept = np.random.default_rng(1).permutation(len(placed))\n"
        "            placed[kept[rows % len(placed)]] = rows",
        "Each example keeps its slot from update to update.",
        tests_in(
            _SLOTS,
            "test_slots_of_successive_updates_are_independent",
            "test_each_slot_is_equally_likely_for_each_example",
        ),
    ),
    fault(
        "equal-words-in-order",
        _SAMPLING,
        "if (np.diff(words[order]) != 0).all():",
        "if len(order):",
        "Where two random words are equal, the first example gets the first slot.",
        tests_in(_SLOTS, "test_equal_words_are_drawn_again"),
    ),
    fault(
        "slots-as-many-as-drawn",
        "tfdpnorm/privacy/slots.py",
        "max(self.batches, -(-count // self.rows))",
        "max(1, -(-count // self.rows))",
        "The number of physical batches depends on who was drawn.",
        tests_in(
            "tests/data/test_poisson_batches.py",
            "test_lots_have_each_example_in_a_slot_of_its_own",
        ),
    ),
    fault(
        "slots-for-one-update",
        "tfdpnorm/privacy/slots.py",
        "SHARE_OF_DELTA * delta / updates",
        "SHARE_OF_DELTA * delta",
        "Some batch of a long run does not fit more often than is added to delta.",
        _in_slots,
    ),
    fault(
        "slots-for-a-tail-as-large-as-delta",
        "tfdpnorm/privacy/slots.py",
        "SHARE_OF_DELTA = 1e-3",
        "SHARE_OF_DELTA = 1.0",
        "What batches that do not fit add to delta is a thousand times what the statement says.",
        _in_slots,
    ),
    fault(
        "slots-one-too-few",
        "tfdpnorm/privacy/slots.py",
        "    return enough\n",
        "    return max(1, enough - 1)\n",
        "Batches that do not fit are more frequent than is added to delta.",
        _in_slots,
    ),
    fault(
        "padding-counts",
        _POISSON,
        "mask = tf.cast(rows < no_row",
        "mask = tf.cast(rows <= no_row",
        "Rows of zeros count as examples; their number tells the size of the lot.",
        tests_in("tests/data/test_poisson_batches.py", "test_an_empty_lot_is_padding_in_all_slots"),
    ),
    fault(
        "other-n-in-data-accepted",
        "tfdpnorm/training/checks/settings.py",
        'for name in ("most_per_person", "num_examples", "expected_batch_size"):',
        'for name in ("most_per_person", "expected_batch_size"):',
        "The data have fewer examples than planned: each is in more lots than q says.",
        tests_in(
            "tests/training/checks/test_bad_input.py",
            "TestData::test_data_of_another_size_than_planned_are_rejected",
        ),
    ),
    fault(
        "public-rows-among-private-accepted",
        "tfdpnorm/data/public.py",
        "overlap = [] if are_generated else arrays.shared_rows(publics, privates)",
        "overlap = []",
        "Rows that are private, too, are used without any protection.",
        ("tests/data/test_public_batches.py",),
    ),
    fault(
        "all-examples-are-read-for-a-lot",
        "tfdpnorm/data/on_demand.py",
        "    slots = np.flatnonzero(placed < count)\n",
        "    slots = np.arange(len(placed))\n    placed = np.minimum(placed, count - 1)\n",
        "Slots of padding hold an example that was not drawn.",
        tests_in("tests/data/test_sources.py", "test_lots_of_a_source_are_those_of_arrays"),
    ),
    fault(
        "errors-of-sources-show-examples",
        "tfdpnorm/data/readers.py",
        "to be read, got {type(error).__name__}. Its",
        "to be read, got {error}. Its",
        "An error while training shows which example was drawn.",
        tests_in("tests/training/test_sources.py", "test_errors_of_reading_are_of_our_words"),
    ),
    fault(
        "labels-of-sources-end-the-training",
        "tfdpnorm/training/fit_data.py",
        "    if batches.examples.is_read_on_demand and any(e is not None for e in expected):\n",
        "    if False:\n",
        "That training ends tells that an example with a wrong label was drawn.",
        tests_in(
            "tests/training/test_sources.py",
            "test_examples_that_arrays_are_rejected_for_count_as_nothing",
        ),
    ),
    fault(
        "own-code-of-sources-unsaid",
        "tfdpnorm/training/fit_data.py",
        "    if of_sequence or batches.examples.reads_own_code:\n",
        "    if False:\n",
        "The statement does not say that code of the user's may mix examples.",
        tests_in(
            "tests/training/test_sources.py", "test_the_statement_says_what_is_presumed_of_own_code"
        ),
    ),
    fault(
        "own-code-of-sequences-unsaid",
        "tfdpnorm/training/fit_data.py",
        "    if of_sequence or batches.examples.reads_own_code:\n",
        "    if batches.examples.reads_own_code:\n",
        "Items that a Sequence normalises by their batch are called verified, and that is all.",
        tests_in("tests/training/test_keras_inputs.py", "test_rows_of_a_sequence_are_sampled"),
    ),
    fault(
        "rows-of-sources-not-compared",
        "tfdpnorm/data/inputs.py",
        "            absent |= wanted - found\n",
        "            absent |= wanted\n            found = set()\n",
        "Validation and public rows may be training examples of a source.",
        tests_in(
            "tests/training/test_sources.py",
            "test_validation_rows_are_looked_for_once_in_all_examples",
        ),
    ),
)
