"""Models that other tools have trained, as plain arrays: CRFsuite's binary files, CRF++'s text files."""
