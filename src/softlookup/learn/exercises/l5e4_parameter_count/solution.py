"""5.4 Count the parameters.

The lookup itself has nothing to learn; all parameters lie in the four projections (q, k, v, out). Many heads
are not many copies of a layer: count what 8 and what 16 heads cost.
"""


def width_of_head(d_model, num_heads):
    """Return d_head, the width of one head, as an integer.

    Raises: ValueError when d_model is not a multiple of num_heads.
    """
    if d_model % num_heads:
        raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
    return d_model // num_heads


def parameter_count(d_model, num_heads, bias=False):
    """Return how many numbers a multi-head layer learns: the weights of q, k, v and out, and their biases.

    bias: True when each of the four projections adds a vector as well

    Raises: ValueError when d_model is not a multiple of num_heads.
    """
    width = num_heads * width_of_head(d_model, num_heads)  # all heads of q (or k, or v) side by side
    return 4 * (d_model * width + (width if bias else 0))


if __name__ == "__main__":
    for num_heads in (1, 8, 16):
        d_head = width_of_head(512, num_heads)
        print(f"{num_heads:2} heads of {d_head:3}: {parameter_count(512, num_heads):,} parameters")
