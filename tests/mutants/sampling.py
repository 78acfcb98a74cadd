"""Faults in the lots: their members, how often, in which slots, and the random numbers."""

from tests.mutants.mutant import fault, tests_in

_SAMPLING = "tfdpnorm/data/poisson.py"
_POISSON = "tfdpnorm/data/poisson.py"
_SLOTS = "tests/data/test_random_slots.py"
_OF_SLOTS = "tests/privacy/test_slots.py"
_MECHANISMS = "tfdpnorm/privacy/mechanisms.py"
_no_excess = tests_in(
    "tests/privacy/test_truncation.py", "test_no_small_case_exceeds_what_is_stated"
)

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
        "the-first-take-part",
        _POISSON,
        "rows[random_slots(most, len(rows), bits)]",
        "rows[:most]",
        "Of too many drawn, the last examples never take part.",
        tests_in(
            "tests/privacy/test_truncation.py",
            "test_some_of_the_drawn_take_part",
            "test_draws_have_the_distribution_of_the_lemma",
        ),
    ),
    fault(
        "a-limit-one-above-the-accounted",
        _POISSON,
        "most_drawn = slots.most_per_batch",
        "most_drawn = slots.most_per_batch + 1",
        "More take part than the statement says.",
        tests_in("tests/privacy/test_truncation.py", "test_batches_have_fixed_shapes"),
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
        "overflows-as-if-nobody-was-displaced",
        _MECHANISMS,
        "self.noise_multiplier / 2",
        "self.noise_multiplier",
        "An example that takes the place of another counts as if the place had been empty.",
        _no_excess,
    ),
    fault(
        "overflows-of-full-batches-alone",
        _MECHANISMS,
        "self.most_per_batch - rows",
        "self.most_per_batch",
        "Others who just fill the batch count as if they left a place.",
        _no_excess,
    ),
    fault(
        "persons-overflow-as-one-example",
        "tfdpnorm/privacy/mixtures.py",
        "if share := each.overflow(rows):",
        "if share := each.overflow():",
        "Of a person with two examples, the second displaces somebody at no cost.",
        tests_in(
            "tests/privacy/test_truncation.py",
            "test_two_examples_overflow_where_one_place_is_left",
        ),
    ),
    fault(
        "overflows-without-losses",
        "tfdpnorm/privacy/mixtures.py",
        "for losses, weight in ((self, 1 - share), (other, share)):",
        "for losses, weight in ((self, 1.0), (other, 0.0)):",
        "The limit on batches costs nothing by PLD.",
        _no_excess,
    ),
    fault(
        "overflows-without-divergence",
        "tfdpnorm/privacy/accountants.py",
        "return rdp_to_deltas(few + number * rare, epsilons, COARSE_RDP_ORDERS)",
        "return rdp_to_deltas(few, epsilons, COARSE_RDP_ORDERS)",
        "The limit on batches costs nothing by Renyi DP.",
        _no_excess,
    ),
    fault(
        "plans-forget-the-limit",
        "tfdpnorm/privacy/plan.py",
        "limit = (self.most_per_batch, self.num_examples)",
        "limit = ()",
        "The limit on batches is in no epsilon.",
        tests_in(_OF_SLOTS, "test_the_limit_costs_a_thousandth_of_epsilon"),
    ),
    fault(
        "noise-without-the-limit",
        "tfdpnorm/privacy/planning.py",
        "if plan.most_per_batch == unlimited.most_per_batch:",
        "if plan:",
        "The noise is calibrated without the limit, which costs more than the budget.",
        tests_in(_OF_SLOTS, "test_the_noise_for_a_budget_includes_it"),
    ),
    fault(
        "limits-at-any-price",
        "tfdpnorm/privacy/slots.py",
        "PRICE = 1e-3",
        "PRICE = 1e-2",
        "The limit on batches costs ten times as much as is said.",
        tests_in(_OF_SLOTS, "test_the_limit_costs_a_thousandth_of_epsilon"),
    ),
    fault(
        "searches-keep-no-delta-for-overflows",
        "tfdpnorm/privacy/search.py",
        "rdp_to_epsilon(rdp, (1 - self._for_overflows) * delta)",
        "rdp_to_epsilon(rdp, delta)",
        "What a trial's limit on batches costs is in no epsilon.",
        tests_in("tests/privacy/test_search.py", "test_delta_has_room_for_overflows_of_all_trials"),
    ),
    fault(
        "trials-with-any-limit",
        "tfdpnorm/privacy/search.py",
        "return self.expected_trials * overflows_of_trial <= self._for_overflows * delta",
        "return overflows_of_trial <= 1",
        "Trials overflow more often than their search has delta for.",
        tests_in("tests/privacy/test_search.py", "test_which_runs_a_search_covers"),
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
    fault(
        "errors-of-examples-shown",
        "tfdpnorm/data/readers.py",
        "to be read, got {type(error).__name__}.",
        "to be read, got {error}.",
        "An error in training shows what the user's code says of an example.",
        tests_in("tests/data/test_sources.py", "test_errors_of_reading_tell_nothing_of_an_example"),
    ),
    fault(
        "ids-by-first-appearance",
        "tfdpnorm/data/text.py",
        "known[token] = id_of(token)",
        "known[token] = max(known.values(), default=0) + 1",
        "The ids of a text depend on the texts before it.",
        tests_in("tests/data/test_hash_tokens.py", "test_each_row_depends_on_its_own_text"),
    ),
    fault(
        "other-examples-unsaid",
        "tfdpnorm/training/validation_data.py",
        "if self._trained and not same and isinstance(ours, InputArrays):",
        "if False:",
        "A second fit has other examples, and the statement counts those of one.",
        tests_in("tests/training/test_second_fit.py", "test_other_examples"),
    ),
)
