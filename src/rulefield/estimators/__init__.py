"""The scikit-learn classes that users meet."""
