"""The data sets of the experiments: scikit-learn's digits, and folders of TensorFlow Datasets."""
