# === not-predicted: half of it
PREDICTIONS = {"no-scale": "same-as-fused", "softmax-over-dim-2": "rows-sum-to-one"}


# === unknown-name
PREDICTIONS = {"no-scale": "the scale"}


# === prediction-wrong: a missing scale is thought to spoil the rows
PREDICTIONS = {
    "no-scale": "rows-sum-to-one",
    "softmax-over-dim-2": "rows-sum-to-one",
    "no-softmax": "rows-sum-to-one",
    "dot-T": "shapes",
    "exp-by-hand": "large-scores-are-finite",
    "divided-by-sum": "weights-are-shares",
    "keys-mixed": "shapes",
    "einsum": "none",
}


# === prediction-wrong: the softmax of the other axis is thought to change the shape
PREDICTIONS = {"no-scale": "same-as-fused", "softmax-over-dim-2": "shapes"}


# === prediction-wrong: true, and not the first that fails
PREDICTIONS = {
    "no-scale": "same-as-fused",
    "softmax-over-dim-2": "rows-sum-to-one",
    "no-softmax": "weights-are-shares",
}


# === prediction-wrong: .T is thought to be harmless
PREDICTIONS = {
    "no-scale": "same-as-fused",
    "softmax-over-dim-2": "rows-sum-to-one",
    "no-softmax": "rows-sum-to-one",
    "dot-T": "none",
}


# === prediction-wrong: every row that sums to one is thought to hold shares
PREDICTIONS = {
    "no-scale": "same-as-fused",
    "softmax-over-dim-2": "rows-sum-to-one",
    "no-softmax": "rows-sum-to-one",
    "dot-T": "shapes",
    "exp-by-hand": "large-scores-are-finite",
    "divided-by-sum": "rows-sum-to-one",
}


# === prediction-wrong: another spelling of the same product
PREDICTIONS = {
    "no-scale": "same-as-fused",
    "softmax-over-dim-2": "rows-sum-to-one",
    "no-softmax": "rows-sum-to-one",
    "dot-T": "shapes",
    "exp-by-hand": "large-scores-are-finite",
    "divided-by-sum": "weights-are-shares",
    "keys-mixed": "shapes",
    "einsum": "same-as-fused",
}


# === no-predictions: the answer for all of them
PREDICTIONS = "rows-sum-to-one"
