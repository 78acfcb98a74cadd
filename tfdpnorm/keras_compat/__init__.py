"""All that leans on private or version-bound parts of Keras 2 and TensorFlow 2.15 or 2.21.

Nothing outside this folder touches such parts; tests/test_imports.py checks it. Each file says
which parts it uses and why no public way exists, so that another version of Keras is a matter of
this folder alone.
"""
