"""Proof of per-example independence, read from the traced graph.

The analysis walks the graph that TensorFlow traced and gives each tensor one verdict (see
`verdicts`): `Free`, `Rows`, `ListOf` or `Mixed`. It runs nothing on data, so that sizes, values,
counters, chance and custom gradients make no difference: the graph itself is what is proved.

Definition. A graph is traced for P examples. A tensor *is of rows* (axis, m, blocks) if that axis
has blocks * P * m entries and, for any two runs that agree in example i and in everything that is
free, the entries r with (r // m) mod P = i agree bit for bit. It is *free* if it agrees in any two
runs that agree in everything that is free. Free to begin with are variables, captured tensors,
constants, and the random numbers that an operation draws: they are drawn by place, so that the
number at a place of the result is the same whatever the examples are. The shape of a tensor that is
free or of rows is free. "Agrees" is said of exact kernels: each entry of a result is computed from
those entries of the inputs that the operation's definition names, in an order that does not depend
on the others; it may depend on the entry's place. A run that raises an error has no result, and
nothing is said of it; nor of a graph in which a tensor has another shape than a call of `set_shape`
said.

A tensor of rows is also *equivariant*, in exact arithmetic: kernels may round otherwise at another
place. Zero-out adjacency does not need it, since the place of an example that is replaced by
nothing stays empty; it is for examples that had never been counted. For a permutation of the P
examples, compare a run with one in which the examples of all arguments are permuted, and the random
numbers of all draws that the proof counts as drawn for examples are permuted alike, along the axis
that it counts them on. In the second run, each tensor of rows (axis, m, blocks) is that of the
first one with its entries so permuted: for all blocks and all s below m, entry s of each example
takes the place of entry s of the example that was there. Each free tensor is the same in both. So
what is computed for an example does not depend on its place. A lot is laid out over physical
batches, its examples one after the other: without one of them, all later ones lie one place further
in front. Draws that are permuted are as likely as before, since they are drawn alike and apart from
each other (see `draws`); so in law the examples that stay give what they gave. What this does not
say: that two physical batches of a lot get the same function. What is drawn once for all rows of a
batch, or changed from batch to batch, as a counter is, tells the batches apart, and moves with none
of the examples. A counter also tells how many physical batches the lots had, which no noise covers.
Such are noted (`Proof.batch_wide` and `Proof.written`), and stop the proof unless a lot is one
physical batch.

Lemma. If the verdicts of an operation's inputs are true, so are those of its outputs. By induction
over the graph all verdicts are true. For each family of operations the module of its rules says
why; `Mixed` says nothing, so that it is always true, and is what operations without a rule get.

Equivariance comes with the same rules, under one condition more. An operation that copies entries,
or computes each from entries of one example, does the same at each place; of its inputs of rows,
all are permuted alike. A free input is not permuted. If each example gets all of it alike, as a
kernel, that does not matter. If it lies *beside* the rows, so that place r of the result gets what
is at place r of it, it must not change if it is permuted like them: its entries are the same for
all examples (s and the block may tell them apart), or it comes from draws that are permuted. By
family: entries computed one by one, whichever axes are broadcast (`elementwise`, `losses`); batches
of images, of matrices and of sums of products (`images`, `products`, `reductions`); numbers for
each channel where the examples are the channels (`normalization`, `images`); entries taken from or
put into batches (`lookups`); pieces joined beside rows or between them (`slices`); what a list
holds, a loop's variable is, or a branch gives, where it is of rows elsewhere (`lists`,
`control_flow`). Which free tensors may lie beside rows is found by the rules themselves (`places`).
Indices along the axis of the examples differ from one example to the next by a number that the
graph knows (`offsets`); less that number they have to be of rows (`own_entries`).
A rule that does not say how a free input lies is not believed (`Node.unanswered`).

What can leave a graph other than through its outputs is a *state fault*: a variable, a table or a
Python function that gets a value which is not free, or gets one when examples decide that it does.
With such a fault nothing is proved: what the graph captured may not be free the next time, or what
it reads later on.
"""
