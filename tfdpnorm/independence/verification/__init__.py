"""Verification of per-example independence, read from the traced graph.

It asks one question: does row i depend on example i, its position and public numbers only? The
analysis walks the graph that TensorFlow traced and gives each tensor one verdict (see `verdicts`):
`Free`, `Rows`, `ListOf` or `Mixed`. It runs nothing on data, so that sizes, values, counters,
chance and custom gradients make no difference: the graph itself is what is verified.

Definition. A graph is traced for P examples. A tensor *is of rows* (axis, m, blocks) if that axis
has blocks * P * m entries and, for any two runs that agree in example i and in everything that is
free, the entries r with (r // m) mod P = i agree bit for bit. It is *free* if it agrees in any two
runs that agree in everything that is free. So a free tensor is also of rows, on whichever axis it
has as many entries. Free to begin with are variables, captured tensors, constants, and the random
numbers that an operation draws: each position of the result gets the same number whatever the
examples are. The shape of a tensor that is free or of rows is free. "Agrees" is said of exact
kernels: each entry of a result is computed from those entries of the inputs that the operation's
definition names, in an order that does not depend on the others; it may depend on the entry's
position. A run that raises an error has no result, and nothing is said of it; nor of a graph in
which a tensor has another shape than a call of `set_shape` said.

Nothing is claimed of the position: numbers for each position of the batch, numbers that are drawn
once for a whole physical batch, and counters of physical batches are free. Training draws the
positions of the examples at random, anew for each update and across all of its physical batches, so
that a position tells no example. But to take another example's entries by position is to depend on
that example.

Lemma. If the verdicts of an operation's inputs are true, so are those of its outputs. By induction
over the graph all verdicts are true. For each family of operations the module of its rules says
why; `Mixed` says nothing, so that it is always true, and is what operations without a rule get.

What can leave a graph other than through its outputs is a *state fault*: a variable, a table or a
Python function that gets a value which is not free, or gets one when examples decide that it does.
The state of what draws random numbers counts as a variable: examples must not decide whether, or
how many, numbers are drawn. With such a fault nothing is verified: what the graph captured may not
be free the next time, or what it reads later on.
"""
