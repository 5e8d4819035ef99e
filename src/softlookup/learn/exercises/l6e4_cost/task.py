"""6.4 What it costs.

Every query meets every key, in every head, in every sample. Before a model runs out of memory, three
lines of arithmetic would have told you.
"""

# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 0,
    "half the width d_model, with as many heads": 0,
    "twice the heads, with the same d_model": 0,
    "a quarter of the tokens in a batch four times as large": 0,
}


def score_count(batch, heads, tokens):
    """Return how many scores one layer of self-attention has in all: an integer."""
    raise NotImplementedError("TODO")


def score_bytes(batch, heads, tokens, bits=32):
    """Return how many bytes these scores take: an integer.

    bits: the size of one number, 32 for float32 and 16 for bfloat16; a byte has 8 bits
    """
    raise NotImplementedError("TODO")


def longest(budget, batch, heads, bits=32):
    """Return how many tokens there may be at most, so that the scores fit into `budget` bytes: an integer."""
    raise NotImplementedError("TODO: which number of tokens just fits?")


if __name__ == "__main__":
    for tokens in (1024, 2048, 4096, 8192):
        print(f"{tokens:5} tokens: {score_bytes(8, 32, tokens, 16) / 2**30:6.2f} GiB of scores")
    print("into 24 GiB fit", longest(24 * 2**30, batch=8, heads=32, bits=16), "tokens")
