"""Questions about production calls and cost."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "invert-a-mask",
        "A mask says True = allowed. Why may it have to be inverted for a production call?",
        Choice(
            "nn.MultiheadAttention reads True as blocked, F.scaled_dot_product_attention as allowed.",
            "So `blocked = ~allowed`, with an assertion that the diagonal stays visible.",
        ),
        (
            Choice("GPUs compute with False faster.", "Speed plays no part in what True means."),
            Choice(
                "All of PyTorch reads True as blocked.", "F.scaled_dot_product_attention reads it as allowed."
            ),
            Choice(
                "Inverting makes it additive.",
                "An additive mask is another thing: numbers that are added to scores, 0 and -inf.",
            ),
        ),
    ),
    Question(
        "flash-is-exact",
        "What does FlashAttention change?",
        Choice(
            "Memory traffic and rounding; the function stays the same.",
            "It computes the softmax in blocks and never writes the T x T matrix; results agree up to "
            "rounding.",
        ),
        (
            Choice(
                "It approximates the softmax.", "It is exact; approximations are another family of methods."
            ),
            Choice("It leaves small weights out.", "Nothing is left out, except what a mask hides."),
            Choice("It makes the work linear in T.", "The work stays quadratic; the memory becomes linear."),
        ),
    ),
    Question(
        "double-t",
        "The sequence length doubles. What becomes of the scores?",
        Choice("Four times as many.", "There is one for each pair: B * H * T * T."),
        (
            Choice("Twice as many.", "That holds for the tokens; scores belong to pairs."),
            Choice(
                "As many as before, if d_model is halved.", "The width does not enter their number at all."
            ),
            Choice("Eight times as many.", "Two axes double, not three."),
        ),
    ),
    Question(
        "is-causal",
        "When is `is_causal=True` of F.scaled_dot_product_attention the right thing?",
        Choice(
            "When causality is the only rule, and queries and keys start at the same position.",
            "With one query against a cache its corner is the upper left: the query would see the first "
            "key only.",
        ),
        (
            Choice(
                "Together with a padding mask.",
                "Both at once are refused or ambiguous: combine masks instead.",
            ),
            Choice(
                "In decoding with a cache, for the one new query.",
                "The flag counts from the first key: this query would see key 0 only.",
            ),
            Choice("Never; a mask is always better.", "The flag lets the fast kernel skip half of the work."),
        ),
    ),
    Question(
        "dropout-p",
        "What is wrong with F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)?",
        Choice(
            "The function does not know about eval mode: it drops always.",
            "Pass `self.p if self.training else 0.0`.",
        ),
        (
            Choice(
                "Nothing: eval() switches it off.",
                "eval() changes modules; a function gets its number anyway.",
            ),
            Choice("dropout_p has to be negative in eval.", "It is a probability."),
            Choice(
                "Dropout is impossible in fused kernels.", "They have it; it has to be asked for rightly."
            ),
        ),
    ),
    Question(
        "portable",
        "Your module and nn.MultiheadAttention have the same parameters. What must be true?",
        Choice(
            "They give the same output, up to rounding.",
            "Carry the weights over and compare: it is the strongest test of a module of your own.",
        ),
        (
            Choice("Only the shapes agree.", "Then one of them computes something else."),
            Choice("They agree after training.", "They agree at once, with any parameters."),
            Choice("They agree in training mode with dropout.", "Dropout is random; compare in eval mode."),
        ),
    ),
)
