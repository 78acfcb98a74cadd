"""All that leans on private or version-bound parts of Keras and TensorFlow.

So all that differs between Keras 2.15 with TensorFlow 2.15, and Keras 3.5 to 3.15 with later ones.
Nothing outside this folder touches such parts; tests/test_imports.py checks it. Each file says
which parts it uses and why no public way exists, so that another version of Keras is a matter of
this folder alone.
"""
