"""The segment-level CRF beside the chain on UMass citations, outermost fields only, with the same token features.

[Fersini14] compares with such a model; on Cora and US50 the scripts of those sets do.

    RULEFIELD_DATA=... python benchmarks/papers/umass_segments.py [--jobs 2]
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from common import data_folder
from rulefield import ChainCRF, SegmentCRF, TokenFeatures
from rulefield.datasets import load_umass
from rulefield.encode.cues import citation_cues
from rulefield.metrics import span_f1


def outermost(part: str) -> tuple[list[list[str]], list[list[str]]]:
    """Tokens and BIO labels of the outermost fields."""
    X, y = load_umass(part)
    return X, [[label.split("/")[0] for label in labels] for labels in y]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    data_folder()
    train, test = outermost("training"), outermost("testing")
    common = {"features": TokenFeatures(lexicons=citation_cues(), marks=True), "scheme": "BIO", "min_count": 2}
    models = {
        "chain_f1": ChainCRF(l2=0.1, n_jobs=options.jobs, **common),
        "segment_crf_f1": SegmentCRF(l2=1.0, n_jobs=options.jobs, **common),
    }
    found = {}
    for name, model in models.items():
        found[name] = round(100 * span_f1(test[1], model.fit(*train).predict(test[0])), 4)
        print(f"  {name:16s} {found[name]:.2f}", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
