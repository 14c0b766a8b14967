"""Tags of songs
=============

What one tag says of the others, and tags that must go together.

Six tags depend on a mood that the features tell only in part. A Gaussian field learns it from the tags themselves.
Run: python examples/gaussian_multilabel.py
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import rulefield as rf
from rulefield import rules as r

TAGS = ["happy", "dancing", "calm", "quiet", "sad", "angry"]
MOOD = np.array([1.0, 0.9, -0.6, -0.8, -0.9, 0.3])


def make_songs(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    mood = 0.8 * X[:, :1] + 1.2 * rng.normal(size=(n, 1))
    own = X[:, 1:7] * 0.5
    return X, (mood * MOOD + own + 0.6 * rng.normal(size=(n, 6)) > 0.2).astype(float)


def main():
    X, Y = make_songs(600)
    train, test = slice(0, 400), slice(400, None)
    field = rf.GaussianCRFClassifier(predictors=[LogisticRegression(), RandomForestClassifier(20, random_state=0)])
    field.fit(X[train], Y[train])
    print("graphs:", {name: round(weight, 1) for name, weight in field.graph_weights_.items()})

    known = np.where(np.isin(TAGS, ["happy", "quiet"]), Y[test], np.nan)
    hidden = np.isnan(known)
    for name, proba in (
        ("nothing known", field.predict_proba(X[test])),
        ("happy and quiet known", field.predict_proba(X[test], known=known)),
    ):
        print(f"AUC of the other four tags, {name}: {roc_auc_score(Y[test][hidden], proba[hidden]):.3f}")

    plain = rf.GaussianCRFClassifier(predictors=field.predictors, algorithm="map").fit(X[train], Y[train])
    for name, model in (("independent tags", plain), ("field", field)):
        print(
            f"log-likelihood of a song's tags, {name}: {model.predict_joint_log_proba(X[test], Y[test]).mean():.3f}"
        )

    happy, sad = r.node("label", 0).is_(1), r.node("label", 4).is_(1)
    rules = [r.at_most(3, r.nodes("label").is_(1)), r.not_(r.all_of(happy, sad)).named("not both happy and sad")]
    before, after = field.predict(X[test]), field.predict(X[test], rules=rules)
    print(
        f"songs with more than three tags: {(before.sum(1) > 3).sum()} before, {(after.sum(1) > 3).sum()} with rules"
    )


if __name__ == "__main__":
    main()
