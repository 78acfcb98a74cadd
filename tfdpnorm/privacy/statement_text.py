"""The text of privacy statements: every sentence, with the facts on which it is there.

A paragraph begins at the margin, and is a line of the statement. "[fact]" is a condition, "[not
fact]" its opposite, "[caveat code]" that of a recorded caveat; several must all be true. At the
margin they decide on the paragraph, within it on the words up to the next bracket; those after
"[]" are always there. "*fact" stands for a line per sentence. A blank line ends a section, and a
section without its heading is left out. The names are those of `facts_of`, with their
attributes; `tfdpnorm.privacy.statement` has the formats of values.
"""

# What changes an epsilon, or how far it holds: said wherever one is.
_WITH_EPSILON = """\
  [has_weak_delta] Weak: so large a delta allows publishing a whole {unit.one}.
  [has_weak_epsilon] Weak: an epsilon above 10 promises little.
  [additions] Rounding adds at most {additions}: with it,
  [additions][epsilon_is_rounded_up] epsilon = {epsilon_with_additions:up} and
  [additions] delta = {delta_with_additions:delta}.
  [stopped_early][is_less_than_planned] If the decision to stop before the end of the plan looked at
  the model or at private data, epsilon = {figures.whole_plan_epsilon:up} instead.
  [declared.settings_used_private_data] Settings were chosen using the private data, and epsilon
  does not cover what that reveals.
  [not settings_declared] Unconfirmed: that the settings
  [not settings_declared][search] that the search did not choose
  [not settings_declared] were not chosen using the private data
  [not settings_declared][weights_unconfirmed]; that the initial weights
  [settings_declared][weights_unconfirmed] Unconfirmed: that the initial weights
  [weights_unconfirmed][caveat initial_weights_not_fresh], which were not fresh,
  [weights_unconfirmed] were not trained on the private data
  [weights_unconfirmed][knows_other_runs], other than by the runs named here
  [weights_unconfirmed].
  [not settings_declared][not weights_unconfirmed].
"""

SHORT = (
    """
[not holds] NO GUARANTEE: no epsilon may be stated for this training run, because:
[not holds] - *reasons
[holds][not was_released] No update has been made.
[holds][was_released] epsilon = {figures.epsilon:up}, delta = {plan.delta:delta} for any one of
  {plan.num_examples} {unit.many}
  [not protects_persons][owns_one], each of another person
  [not protects_persons][not owns_one][not person], not for a person with several
  [person][not person.is_finite], not for a person with several
  [not owns_one][person][person.is_finite]; epsilon = {person.epsilon:up} for a person with
  {rows_per_person:at_most}
  [search], the search included
  [].
  [caveat acted_on_validation] The validation examples are not protected.
[holds][was_released] It holds on the conditions of the full statement.
"""
    + _WITH_EPSILON
    + """\
  [has_unknown_weights] Unconfirmed: where the weights come from.
  [has_known_weights] Not included: what another run spent on these weights.
[] Full statement: privacy_statement()
"""
)

SUMMARY = (
    """
[not holds] NO GUARANTEE: no differential privacy is guaranteed for this training run, and no
  epsilon may be stated for it, because:
[not holds] - *reasons
[not holds][claims] Not achieved: claimed epsilon = {claimed_epsilon:up} at delta =
  {plan.delta:delta} (not a guarantee). The accountant computes it for the settings below, ignoring
  the reasons above.
[not holds] What it means: nothing bounds how much the weights reveal about the training data.
[not holds] Who is protected: no one.
[not holds] What may be published: neither the model nor anything computed from it, if the training
  data are private. Train again without the fault named above.
[not holds] What must stay secret, or be deleted, if the training data are private: the weights,
  everything computed from them, and the output and logs of training.
[holds][not was_released] 1. No update has been made: this run's own updates have used no private
  data.
  [foreign_weights] But the data that its weights were trained on are unknown, so no epsilon can be
  stated.
  [not foreign_weights] If its weights were freshly initialised, epsilon = 0. The ledger does not
  record which data any other initial weights were trained on.
[holds][was_released] 1.
  [one_release] The release
  [not one_release] Training
  [search], with the search that it is part of,
  [] satisfies (epsilon, delta)-differential privacy with epsilon = {figures.epsilon:up} (rounded
  up) and delta = {plan.delta:delta}, for any
  [protects_persons] one person with all their rows
  [not protects_persons][not rows_per_person] one example, not one person
  [rows_per_person][owns_one] one example (a person, who owns at most one: see below)
  [rows_per_person][not owns_one] one example (a person with several: see below)
  [], on the conditions below.
"""
    + _WITH_EPSILON
    + """\
  [has_unknown_weights] Unconfirmed: where the weights come from (see the next line).
  [has_known_weights] Not included: what another run spent on these weights (see the next line).
[holds] - *foreign_weights
[holds][not was_released] 2. What it means: nothing has been released yet.
[holds][was_released] 2. What it means: an attacker who first believes with 50 % certainty that a
  given {unit.one} is in the training data can become at most {figures.certainty:percent} certain of
  it, and one who is more certain at first can become more so: the odds change by a factor of at
  most {figures.odds:up3}. Results that allow more have a probability of at most
  {figures.delta:one_in}. An attack with false positives for 1 % of the {unit.many} outside the data
  identifies at most {figures.true_positive_rates[0.01]:percent} of those inside.
[holds] 3. Who is protected: any one of {plan.num_examples} {unit.protected}
  [protects_persons], persons as identified by the data holder's ids. The number counts persons, not
  rows.
  [not protects_persons][not covers_owners], each individually. If one person owns several of them,
  this epsilon does not cover them jointly, and no figure for such a person is stated.
  [covers_owners][not person], each individually. {no_person_because}
  [covers_owners][person][not person.is_finite], each individually. A person who owns
  {rows_per_person} of them is not protected.
  [covers_owners][person][person.is_finite]; and any person who owns {rows_per_person:at_most} of
  them, with epsilon = {person.epsilon:up} (rounded up) at the same delta: a certainty of 50 %
  becomes at most {person.certainty:percent} (with the exception of line 2), an attack with 1 %
  false positives identifies at most {person.true_positive_rates[0.01]:percent} of such persons,
  and mu = {person.mu:up3}.
  [caveat acted_on_validation] Who is in the validation examples, which guided a choice, is not
  protected.
[holds][is_of_all_trials] 4. What may be published: nothing of this, neither this statement nor the
  ledger, since both tell the number of trials, which the guarantee needs to be secret. Publish the
  winner, its own statement and its own ledger.
[holds][not is_of_all_trials] 4. What may be published: without weakening the guarantee,
  [is_chosen_in_secret] only this model of the search: its weights after every update
  [search][search.is_composed] the weights after every update of all trials of the search, their
  noisy scores
  [not search][one_release] the model, and the noisy sum that its weights are a function of
  [not search][not one_release] the model, with its weights after any of the updates
  []; every function of them that does not use the private data again (predictions, averages,
  exported models); this statement
  [file], and the ledger
  [].
  [has_unknown_weights] Unconfirmed: where the weights come from (see line 1).
  [has_known_weights] Not included: what another run spent on these weights (see line 1).
  [] This is not a legal permission.
[holds] 5. What must stay secret, or be deleted: the training data;
  [not one_release] the loss and the metrics that training printed or logged, which have no noise;
  [is_chosen_in_secret] the other trials, their scores and their number;
  [] and the memory of the process: the noise key
  [one_release] and the exact sum.
  [not one_release], the members of the sampled batches, exact sums and exact gradients.
  [] The noise key was never written to disk.
[holds] 6. What was counted: {counted}. What was not: every other run and search on the same data,
  whether used or discarded
  [declared.search] (on how the settings were found, the data holder states: "{declared.search}")
  [only_answers] (on how the settings were found, the data holder
  [only_answers][not settings_declared] states nothing)
  [only_answers][settings_declared] states only that the private data were
  [only_answers][settings_declared][not declared.settings_used_private_data] not
  [only_answers][settings_declared] used)
  [];
  [not one_release] the loss and the metrics that training printed or logged;
  [] and everything else computed from private data
  [search] outside of the search
  [] (see Not covered).
[holds] 7. What it relies on:
  [not takes_all] batches drawn at random in secret;
  [] a noise key that stays secret;
  [one_release] a contribution
  [not one_release] a gradient
  [] of each {unit.one} that depends on no other {unit.one}
  [not is_verified] (not fully verified);
  [is_verified] (verified
  [is_verified][caveat given_features], but for the computation of the features
  [is_verified]);
  [declared.settings_used_private_data] settings that are public: that they were chosen using the
  private data is not covered
  [not declared.settings_used_private_data] settings that are public and were not chosen using the
  private data
  [not declared.settings_used_private_data][search], other than by the counted search
  [not declared.settings_used_private_data][settings_declared] (as declared)
  [not settings_declared] (unconfirmed)
  [caveat given_public_rows]; public rows that are no one's private data
  [relies_on_weights]; initial weights
  [relies_on_weights][caveat initial_weights_not_fresh] (not fresh)
  [relies_on_weights] that were not trained on the private data
  [relies_on_weights][knows_other_runs], other than by the runs named here
  [relies_on_weights][not weights_unconfirmed] (as declared)
  [weights_unconfirmed] (unconfirmed)
  []; code of the data holder's, such as callbacks, that neither changes weights nor keeps private
  data; and correct software and hardware.
[]
  [holds] 8.
  [] How to check it:
  [not file][not holds] there is no guarantee to check.
  [not file][holds] not possible later, since the ledger, the record of the privacy budget spent,
  was kept in memory only. If a run has a folder, its ledger is a file from which anyone can
  recompute the figures.
  [file] tfdpnorm-epsilon --ledger={file.name} recomputes these figures from the ledger, the record
  of the privacy budget spent: a file whose first {file.lines} lines have the SHA-256 {file.sha256}.
  {cannot_show}
  [file][not is_as_in_file] It was closed before the weights were replaced, so that what it prints
  lacks the remarks on them.
[]
  [holds] 9.
  [] What it is about: run {run}
  [weights]; weights with the SHA-256 {weights}
  []; trained with {main_software}; stated on {date}.
[]
  [holds] 10.
  [] Responsible person: {declared.responsible:given}. Contact: {declared.contact:given}.
"""
)

DETAILS = """
[not holds] Guarantee
- None holds, for the reasons above.

[holds] Guarantee
- (epsilon, delta) = ({figures.epsilon:up}, {plan.delta:delta}): with and without
  {unit.neighbours}, the probability of every set of results differs by a factor of at most
  e^epsilon, up to delta
  [has_usual_delta], the smaller of 1e-5 and 1 / (10 N) with N = {plan.num_examples}, as planned
  [].
[figures.added] - To this delta, at most {figures.added_in_all:up} is added:
  {figures.added:amounts} (each rounded up).
[person] - For a person who owns {rows_per_person:at_most} of the examples: ({person.epsilon:up},
  {plan.delta:delta}), with
  [person.added_in_all] at most {person.added_in_all:up} added to delta and
  [] true-positive rates of at most {person.true_positive_rates:rates}; mu = {person.mu:up3}.
[person][answers] - The same number of private validation examples of a person is included.
- True-positive rates of at most {figures.true_positive_rates:rates}.
  [figures.mu_is_close] mu = {figures.mu:up3} is that
  [not figures.mu_is_close] mu is that
  [] of a Gaussian mechanism against which attacks with a false-positive rate from 0.1 % to 99.9 %
  do at least as well. These figures include the additions to delta.
[not search][state.is_held_to_plan] - This is the epsilon of the full plan of {plan.steps:update},
  regardless of how many were made, because: {reasons_for_plan}.
[not search][stopped_early] - The run was planned for {plan.steps:update}
  [planned_answers] and {planned_answers:answer}
  []. If the decision to stop earlier looked at the model or at private data, state the epsilon of
  the full plan instead: {figures.whole_plan_epsilon:up} (rounded up)
  [person], for a person {person.whole_plan_epsilon:up}
  [].
[has_weak_delta] - Weak: delta is not below 1 / {plan.num_examples}. Such a guarantee allows
  publishing a whole {unit.one}. Choose a delta of at most a tenth of that.

[holds] Unit and neighbouring relation
- Unit: {unit.neighbours}, of {plan.num_examples}
  [protects_persons] {unit.many}.
  [not protects_persons] {unit.protected}.
[rows_per_person] - Second unit: one person with {rows_per_person:at_most} of these examples, see
  Guarantee.
- Neighbouring relation: add or remove {unit.neighbours} (add_or_remove_one). The number of
  {unit.many}, the sampling rate, the expected batch size and all settings below are public
  constants, the same for both data sets.

[holds] Released
- Covers: the model,
  [one_release] and the noisy sum that its weights are a function of,
  [not one_release] with its weights after any of the updates,
  [] and every function of them that does not use the private data again (predictions, averages,
  exported models, the state of the optimizer).
- The ledger holds the settings, the counts above and noisy answers; nothing else depends on the
  private data.
[answers_apart] - Validation: a second guarantee holds for any one validation example. It covers the
  [search] noisy scores of the trials and the choice based on them,
  [not search] noisy answers about these examples ({answers_apart} so far) and every choice based on
  the answers,
  [] with epsilon = {validation_epsilon:up} (rounded up) and delta = {plan.delta:delta}. It assumes
  that no validation example is a training example
  [search].
  [not search]; for training examples the answers cost nothing.
  [not search][state.is_held_to_plan] It is the epsilon of all {planned_answers_apart} planned
  answers.
  [not search][stopped_asking] {planned_answers_apart} answers were planned. If the answers decided
  when to stop, state the epsilon of all of them instead: {planned_validation_epsilon:up} (rounded
  up).
  [not search][not state.is_held_to_plan][not stopped_asking] If the answers decided how many
  queries were made, and that number was not fixed beforehand, state the epsilon of the largest
  possible number of queries instead.
[overlapping_answers] - Includes: the noisy answers ({overlapping_answers} so far) about validation
  examples that are or may be training examples as well; the epsilon applies to them, too.

[holds] Threat model and assumptions
- Attacker: sees
  [one_release] the noisy sum,
  [not one_release] the weights after every update,
  [] this statement and the ledger, and knows the code, all settings and all other {unit.many}.
- It is assumed that the attacker does not learn the secrets of the run: the noise key, the members
  and slots of the sampled batches, exact sums, gradients and metrics, and the rest of the memory of
  the process.
- *established
[rows_per_person] - It is assumed that no person owns more than {rows_per_person:example}, unless
  the program was given the owners and checked them.

Mechanism and settings
[one_release] - Gaussian mechanism: one sum of contributions of bounded norm, with Gaussian noise.
  Planned: {plan.steps:release}.
[not one_release] - DP-SGD (Abadi et al. 2016): each update releases the sum of clipped gradients of
  a random batch, with Gaussian noise. Planned: {plan.steps:update}.
- Sampling:
  [takes_all] every {unit.one} is in every batch ({batch}, q = 1)
  [not takes_all] Poisson: each {unit.one} is drawn for each batch independently with probability
  q = {plan.sampling_rate:.6g} ({batch} expected), and is put into a random slot
  [is_limited]. Of more than {plan.most_per_batch} drawn, so many take part, chosen at random
  [protects_persons]. A person in a batch contributes the mean gradient of up to
  {plan.most_per_person} of their rows, clipped once
  [].
- Noise and clipping: noise multiplier z = {plan.noise_multiplier!r}, l2 clipping norm C =
  {plan.l2_norm_clip!r}.
[sum_rounding][plan.noise_multiplier] - Rounding: the standard deviation of the noise is z C (1 +
  {sum_rounding:up2}), since with rounding, one {unit.one} can change the computed sums by that much
  more than C.
[plan.statistics_queries] - Statistics: each update releases the sum of clipped gradients with noise
  multiplier z_g = {plan.gradient_noise_multiplier:.6g}. From the same batch it also releases
  {plan.statistics_queries} sums of truncated activations and of their squares, for the running
  averages of normalisation layers, with noise multiplier z_s =
  {plan.statistics_noise_multiplier:.6g} each. These account for a share of
  {plan.statistics_budget_share!r} of the privacy loss of the update. Together the sums compose to
  one with noise multiplier z.

Accounting
- Accountant: {plan.accountant:accountant}, dp-accounting
  [moves_in_steps]; as long as updates are left of the plan, epsilon moves in steps: the one stated
  is that of {updates_in_epsilon} updates, not of the {state.updates} made, so that it is never too
  small
  [].
[holds] - True-positive rates and mu are computed from the whole curve of epsilon and delta,
  [search] from the Renyi divergences of the search. Attacks may stay well below these bounds.
  [not search] by PLD or RDP, whichever is tighter.
- Updates: T = {state.updates}
  [not state.lost_updates] made, of {plan.steps} planned.
  [state.lost_updates] spent, of {plan.steps} planned; the present weights are the result of
  {state.position}.
[holds][plan.earlier] - Includes: earlier phases of the training on the same data, releases at
  sampling rate q, noise multiplier z: {plan.earlier:phases}. The epsilon is that of all phases
  composed. It assumes that the results of a phase influenced neither the settings (noise, sampling
  rate, number of updates) of a later phase nor the time at which it ended, and that no validation
  example is a training example of any phase.
[holds][search][search.is_composed] - Search: this run is one of at most {search.in_words}, whose
  settings may depend on the scores of earlier trials. The epsilon is that of all of them composed,
  so that all their weights and noisy scores may be released. One trial alone would have epsilon
  {trial_epsilon:up}.
[holds][is_chosen_in_secret] - Search: this run is the best of a random number of trials with random
  settings ({search.in_words}), drawn in secret and independently of the data (Papernot and Steinke
  2022). The epsilon includes the choice. It assumes that nothing about the other trials is released
  (weights, scores, their number), and that the data did not influence when a process of the search
  ended. One trial alone would have epsilon {trial_epsilon:up}, and {search.expected_trials:g} of
  them, all released, {composed_epsilon:up}.
[holds][search][not search.score_noise_multiplier] - Scores: of public examples. If they are not
  public, this epsilon does not protect them.
[person] - Persons with several examples: computed by
  [search] the group privacy lemma, over the Renyi divergences of the search.
  [not search] PLD of the mixture of Gaussians with a binomial number of the person's examples in
  each batch (Ganesh 2024), or the group privacy lemma, whichever is tighter.
[holds][no_person_because] - {no_person_because}

[not holds] Not covered
- Nothing is covered, since no guarantee holds.
- *foreign_weights
- *not_covered

[holds] Not covered
[not search] - Hyperparameter search: every further run or trial on the same data, used or
  discarded, adds to the epsilon, and so does choosing the best of several.
[search] - Any other search: every further run on the same data, used or discarded, adds to this
  epsilon, and so does every copy of this search's folder in which the search continued as well.
[state.resumes] - Copies of this run: its folder was opened again, and a copy or an earlier state of
  it looks the same. It is assumed that no copy of the folder was continued as well, and that no
  earlier state of it was restored. Otherwise, everything released adds up, and no ledger records
  it.
- The training loss and every metric computed on private data during training, wherever they were
  printed or logged, and every choice based on them: a stopping time, a checkpoint, a learning rate.
- All other inputs of the run that were computed from private data: preprocessing, a vocabulary,
  sample weights or class weights, initial weights, the choice of the examples to train on.
- Scores on private examples outside the training data, such as a test accuracy: they are exact, and
  nothing here protects those examples.
[answers] - Private validation data, where anything other than the noisy answers counted above
  guided a choice.
[not answers] - Private validation data that guided a choice: this epsilon does not protect its
  examples.
[not has_exact_noise] - Floating-point effects (Mironov 2012): the accountant assumes exact Gaussian
  noise on exact sums. This run draws the noise from 32-bit random words, and computes and adds it
  in float32, where some results are impossible. An attacker who knows two candidates for the sum of
  an update can tell from the bits of the release which of them it was, regardless of epsilon.
[not has_exact_sums] - Floating-point effects on the sums before the noise (Casacuberta et al.
  2022): one example changes the exact sum by at most C, but the computed sum by more, because it
  changes the rounding of other examples. For this engine no bound is known.
- Side channels: the duration of training, and its memory accesses.
- *not_covered

[holds] Numerical safety
[not has_exact_noise] - Noise: not safe, see Not covered.
[has_exact_noise] - Noise (Mironov 2012): the noisy sums are rounded to a grid and have the
  distribution that the accountant assumes, up to factors that add at most {most_lost_epsilon:up} to
  epsilon, and to delta the amount stated above, for up to {grid_numbers:.0e} noisy numbers (weights
  times updates
  [search], of all trials together
  []).
[not has_exact_sums] - Sums: the effect of rounding is not bounded, see Not covered.
[has_exact_sums] - Sums (Casacuberta et al. 2022): the noise is increased by the most that rounding
  can add to the effect of one {unit.one}. This assumes processors and kernels that round each
  operation according to IEEE 754, and compute the numbers of an example only from that example and
  its position in the batch.
- *generators

Provenance
- The run was started with {all_software}.
- This statement was computed by tfdpnorm {computed_with[tfdpnorm]} with dp-accounting
  {computed_with[dp-accounting]}.
[weights] - The digest of the weights is that of tfdpnorm.training.weights_digest(model), for the
  model as tfdpnorm saved it. Files in other formats have other digests.
[state.is_finished] - The run has ended: no further update is possible.
[state.resumes] - The run was resumed {state.resumes:times}; {state.lost_updates:update}
  [lost_one] was lost and is
  [not lost_one] were lost and are
  [] charged to the budget. Each resumption drew new noise and new batches.
"""
