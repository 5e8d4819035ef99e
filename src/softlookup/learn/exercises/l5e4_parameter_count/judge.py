"""Count the parameters.

Goal: Write `width_of_head(d_model, num_heads)` and `parameter_count(d_model, num_heads, bias=False)` for a
layer with four projections q, k, v and out, whose heads share the width d_model.

Checks: Both for several sizes, 512 with 8 and with 16 heads among them, with and without biases; the
ValueErrors.

Ask: Which shape has the weight of the query projection, and what does it say about the number of heads?

Hint: A projection from width a to width b has a weight with a * b numbers, and a bias with b numbers.

Hint: All heads together are as wide as the token. Write down the width of one head first, and then that of
all heads of q side by side.

Hint: Build it for a small size, `nn.Linear(8, 8)`, and add up `p.numel() for p in layer.parameters()`: does
any of it change when you cut the result into 2 heads, or into 4?
"""

from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Computes

KIND = "write"
AS_GIVEN = "not-written"


def width_of_head(d_model, num_heads):
    if d_model % num_heads:
        raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
    return d_model // num_heads


def full_width_per_head(d_model, num_heads):
    """Every head gets the full width d_model.

    Ask: How wide is a token after all heads are put side by side again?
    """
    width_of_head(d_model, num_heads)
    return d_model


def not_an_integer(d_model, num_heads):
    """The number is right, but it is a float: a width counts numbers.

    Ask: What does `view` say to a size of 64.0?
    """
    return float(width_of_head(d_model, num_heads))


def rounded_down(d_model, num_heads):
    """A width that does not come out even is rounded down.

    Ask: 10 heads share 512: how wide are they together then?
    """
    return d_model // num_heads


def fraction_of_a_number(d_model, num_heads):
    """The division gives a float; where it does not come out even, a fraction, and no error.

    Ask: Can a head be 51.2 numbers wide?
    """
    return d_model / num_heads


def root_of_width(d_model, num_heads):
    """This is the root of the width, which belongs to the scale of the scores.

    Ask: How many numbers of a token does one head see?
    """
    return width_of_head(d_model, num_heads) ** 0.5


def parameter_count(d_model, num_heads, bias=False):
    width = num_heads * width_of_head(d_model, num_heads)
    return 4 * (d_model * width + width * bool(bias))


def width_duplicated(d_model, num_heads, bias=False):
    """Each head counts as if it had projections of the full width of its own.

    Ask: Does the layer get more parameters when its width is cut into more pieces?
    """
    return num_heads * parameter_count(d_model, num_heads, bias)


def width_of_qkv_duplicated(d_model, num_heads, bias=False):
    """Each head has q, k and v of the full width, and the output projection takes all of them.

    Ask: How wide is what the output projection gets, when each head has its share of d_model?
    """
    parameter_count(d_model, num_heads)
    wide = num_heads * d_model
    return 3 * (d_model * wide + wide * bool(bias)) + wide * d_model + d_model * bool(bias)


def one_head_counted(d_model, num_heads, bias=False):
    """The projections of one head are counted, not those of all.

    Ask: From which weights do the other heads get their queries?
    """
    d_head = width_of_head(d_model, num_heads)
    return 4 * (d_model * d_head + d_head * bool(bias))


def heads_seen_apart(d_model, num_heads, bias=False):
    """A head projects only from its own slice of the token: d_head by d_head.

    Ask: Is the token cut before it is projected, or after?
    """
    d_head = width_of_head(d_model, num_heads)
    return 4 * num_heads * (d_head * d_head + d_head * bool(bias))


def output_projection_missing(d_model, num_heads, bias=False):
    """Three projections are counted; there are four.

    Ask: What mixes the heads after they were put side by side?
    """
    return parameter_count(d_model, num_heads, bias) * 3 // 4


def one_projection_counted(d_model, num_heads, bias=False):
    """One projection is counted.

    Ask: Do queries, keys and values come from the same weights?
    """
    return parameter_count(d_model, num_heads, bias) // 4


def bias_forgotten(d_model, num_heads, bias=False):
    """The count is the same with and without biases.

    Ask: What does a projection add to x @ W when it has a bias?
    """
    return parameter_count(d_model, num_heads)


def bias_always(d_model, num_heads, bias=False):
    """Biases are counted although there are none.

    Ask: What does the argument `bias` say when nothing is given for it?
    """
    return parameter_count(d_model, num_heads, True)


def one_bias_for_all(d_model, num_heads, bias=False):
    """One bias is counted for the whole layer.

    Ask: Which of the projections has it?
    """
    return parameter_count(d_model, num_heads) + d_model * bool(bias)


def bias_for_each_head(d_model, num_heads, bias=False):
    """Every head gets biases of the full width.

    Ask: How long is the vector that is added to q, before q is cut into heads?
    """
    return parameter_count(d_model, num_heads) + 4 * num_heads * d_model * bool(bias)


def bias_as_one_number(d_model, num_heads, bias=False):
    """A bias counts as one number for each projection.

    Ask: What shape has `nn.Linear(8, 8).bias`?
    """
    return parameter_count(d_model, num_heads) + 4 * bool(bias)


def heads_not_checked(d_model, num_heads, bias=False):
    """A number of heads by which d_model cannot be divided is counted all the same.

    Ask: How wide would each of 10 heads be for d_model 512?
    """
    return 4 * (d_model * d_model + d_model * bool(bias))


PARTS = (
    Computes(
        "width_of_head",
        width_of_head,
        [Given(8, 2), Given(6, 1), Given(48, 6), Given(512, 8), Given(512, 16), Given(5, 2), Given(512, 10)],
        [full_width_per_head, not_an_integer, rounded_down, fraction_of_a_number, root_of_width],
    ),
    Computes(
        "parameter_count",
        parameter_count,
        [
            Given(8, 2),
            Given(6, 1),
            Given(6, 3, True),
            Given(512, 8),
            Given(512, 16),
            Given(48, 6, bias=True),
            Given(512, 10),
        ],
        [
            width_duplicated,
            width_of_qkv_duplicated,
            one_head_counted,
            heads_seen_apart,
            output_projection_missing,
            one_projection_counted,
            bias_forgotten,
            bias_always,
            one_bias_for_all,
            bias_for_each_head,
            bias_as_one_number,
            heads_not_checked,
        ],
    ),
)
