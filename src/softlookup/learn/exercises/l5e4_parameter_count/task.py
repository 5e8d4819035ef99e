"""5.4 Count the parameters.

The lookup itself has nothing to learn; all parameters lie in the four projections (q, k, v, out). Many heads
are not many copies of a layer: count what 8 and what 16 heads cost.
"""


def width_of_head(d_model, num_heads):
    """Return d_head, the width of one head, as an integer.

    Raises: ValueError when d_model is not a multiple of num_heads.
    """
    raise NotImplementedError("TODO: one check, one line")


def parameter_count(d_model, num_heads, bias=False):
    """Return how many numbers a multi-head layer learns: the weights of q, k, v and out, and their biases.

    bias: True when each of the four projections adds a vector as well

    Raises: ValueError when d_model is not a multiple of num_heads.
    """
    raise NotImplementedError("TODO: four projections")


if __name__ == "__main__":
    for num_heads in (1, 8, 16):
        d_head = width_of_head(512, num_heads)
        print(f"{num_heads:2} heads of {d_head:3}: {parameter_count(512, num_heads):,} parameters")
