"""What programs leave out of the log."""

import logging
import types

import tensorflow as tf

from tests.programs import run_main


def test_users_are_not_told_to_check_callbacks_that_they_do_not_have(monkeypatch, capsys):
    """Keras 2's words; tests of the network in between take longer than its updates."""
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())

    def main():
        for hook in ("begin", "end"):
            tf.get_logger().warning(
                f"Callback method `on_train_batch_{hook}` is slow compared to the batch time "
                "(batch time: 0.0080s vs `on_train_batch_end` time: 0.1125s). Check your callbacks."
            )
        tf.get_logger().warning("Something else.")

    tf.get_logger().addHandler(handler)
    try:
        program = types.SimpleNamespace(__name__="program", define_flags=lambda: None, main=main)
        assert run_main(program, [], monkeypatch, capsys).code == 0
    finally:
        tf.get_logger().removeHandler(handler)
    assert told == ["Something else."]
