"""Models that other tools have trained, as plain arrays: CRFsuite's binary files, text files of CRF++ and Wapiti."""
