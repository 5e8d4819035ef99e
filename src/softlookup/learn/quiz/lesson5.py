"""Questions about many heads."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "heads-8-to-16",
        "d_model is 512 and the heads go from 8 to 16. What becomes of d_head and of the parameters?",
        Choice(
            "d_head goes from 64 to 32, the parameters stay as they are.",
            "The width is shared among the heads; the four projections stay 512 x 512.",
        ),
        (
            Choice(
                "d_head stays 64, the parameters double.", "That is a full set of widths for each head anew."
            ),
            Choice("d_head goes from 64 to 128.", "More heads share the same width: each gets less."),
            Choice(
                "d_head stays 512 in each head.", "That is the costly mistake: a full width for each head."
            ),
        ),
    ),
    Question(
        "split",
        "x has the shape (B, T, d_model). How does one get (B, H, T, d_head)?",
        Choice(
            "x.view(B, T, H, d_head).transpose(1, 2)",
            "The width is cut into heads first, then the axis of heads moves before the positions.",
        ),
        (
            Choice(
                "x.view(B, H, T, d_head)",
                "Same shape, other numbers: positions and heads get mixed.",
            ),
            Choice("x.reshape(B, H, d_head, T).transpose(2, 3)", "Here positions and widths get mixed."),
            Choice(
                "x.transpose(1, 2).view(B, H, T, d_head)",
                "After the transpose the memory is not laid out for this view: an error, or mixed numbers.",
            ),
        ),
    ),
    Question(
        "merge",
        "Why does `.contiguous()` stand between transpose and view when heads are merged?",
        Choice(
            "transpose only changes how memory is read; view needs the numbers to lie in the new order.",
            "contiguous() copies them into that order; reshape() does so where it is needed.",
        ),
        (
            Choice(
                "It makes the result faster on a GPU.", "Perhaps; but without it view refuses the tensor."
            ),
            Choice("It keeps the gradient.", "Gradients pass through transpose and view alike."),
            Choice("It is a habit without effect.", "Without it, view raises, or the heads get mixed."),
        ),
    ),
    Question(
        "indivisible",
        "d_model = 30 and num_heads = 4. What should a module do?",
        Choice(
            "Raise a ValueError in its constructor.",
            "30 is no multiple of 4; cutting would silently leave two columns out.",
        ),
        (
            Choice(
                "Use heads of 7 and leave the rest out.", "Part of the width would be lost without a word."
            ),
            Choice("Use heads of different widths.", "No usual kernel can compute that in one product."),
            Choice(
                "Wait for the first forward to fail.",
                "The message would be about a view, far from the cause.",
            ),
        ),
    ),
    Question(
        "dropout-where",
        "Where does attention dropout act, and when?",
        Choice(
            "On the weights after the softmax, in training only.",
            "Rows then no longer sum to one; that is why row sums are tested in eval mode.",
        ),
        (
            Choice("On the scores before the softmax, always.", "Then the softmax would share it out again."),
            Choice("On the weights, always.", "In eval mode nothing may be random."),
            Choice("On the mask.", "A mask is a rule and not random."),
        ),
    ),
)
