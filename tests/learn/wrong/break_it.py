# === not-predicted: half of it
PREDICTIONS = {"softmax-over-dim-2": "rows-sum-to-one", "tril-to-triu": "future-is-zero"}


# === prediction-wrong: another axis is thought to open the future
PREDICTIONS = {"softmax-over-dim-2": "future-is-zero"}


# === prediction-wrong: rows that look ahead are thought not to sum to one
PREDICTIONS = {"softmax-over-dim-2": "rows-sum-to-one", "tril-to-triu": "rows-sum-to-one"}


# === prediction-wrong: a row without keys is thought to be harmless
PREDICTIONS = {
    "softmax-over-dim-2": "rows-sum-to-one",
    "tril-to-triu": "future-is-zero",
    "diagonal-hidden": "none",
}


# === prediction-wrong: -9 is thought to be as good as -inf
PREDICTIONS = {
    "softmax-over-dim-2": "rows-sum-to-one",
    "tril-to-triu": "future-is-zero",
    "diagonal-hidden": "rows-sum-to-one",
    "diagonal-plus-one": "future-is-zero",
    "hidden-with-minus-9": "none",
}


# === prediction-wrong: true, and not the first that fails
PREDICTIONS = {
    "softmax-over-dim-2": "rows-sum-to-one",
    "tril-to-triu": "future-is-zero",
    "diagonal-hidden": "rows-sum-to-one",
    "diagonal-plus-one": "future-is-zero",
    "hidden-with-minus-9": "future-is-zero",
    "zeroed-after-softmax": "same-as-fused",
}


# === prediction-wrong: shapes are thought to tell keys and values apart
PREDICTIONS = {
    "softmax-over-dim-2": "rows-sum-to-one",
    "tril-to-triu": "future-is-zero",
    "diagonal-hidden": "rows-sum-to-one",
    "diagonal-plus-one": "future-is-zero",
    "hidden-with-minus-9": "future-is-zero",
    "zeroed-after-softmax": "rows-sum-to-one",
    "keys-in-place-of-values": "shapes",
}


# === unknown-name
PREDICTIONS = {"softmax-over-dim-2": "the sums"}


# === no-predictions: the answer for all of them
PREDICTIONS = ["rows-sum-to-one"] * 8
