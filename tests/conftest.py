"""What holds for all tests: one thread an operation.

Several processes test side by side, each of them would start a thread for every core; and sums that
threads share come out in another order now and then, where some tests compare runs to the last bit.
"""

import os

# Before TensorFlow is loaded, here and in the programs that tests start.
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
