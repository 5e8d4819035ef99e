"""Questions about masks."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "mask-and-not-delete",
        "Why are future tokens hidden by a mask in training, and not simply deleted from the input?",
        Choice(
            "All positions are trained at once, and what is future for one is past for another.",
            "One pass over T tokens gives T predictions; the mask cuts a different set of keys for each row.",
        ),
        (
            Choice(
                "Deleting would change the vocabulary.",
                "The vocabulary has nothing to do with it: it is about who may see whom.",
            ),
            Choice(
                "The mask also saves memory.",
                "It does not by itself: the scores of hidden pairs are computed first, unless a kernel "
                "skips them.",
            ),
            Choice(
                "The model has to see future tokens a little.",
                "It must not see them at all: a hidden weight is exactly zero.",
            ),
        ),
    ),
    Question(
        "before-the-softmax",
        "Why is a score hidden with -inf before the softmax, and not a weight with 0 after it?",
        Choice(
            "After the softmax the row would no longer sum to one: the hidden keys have taken their share.",
            "With -inf before it, exp(-inf) = 0 exactly, and the rest is shared among the visible keys.",
        ),
        (
            Choice("Both come to the same.", "The row sums differ: what hidden keys took is lost."),
            Choice("The softmax needs -inf in every row.", "It works without any; most rows may have none."),
            Choice("0 is not a valid weight.", "It is: a hidden key has exactly this weight."),
        ),
    ),
    Question(
        "empty-row",
        "All keys of a query are hidden with -inf. What does the plain softmax of its row give?",
        Choice(
            "NaN: 0 divided by 0.",
            "No share can be given when nothing is visible. Refuse such rows, or define what they "
            "return, before "
            "the NaN spreads through the loss.",
        ),
        (
            Choice("Zeros.", "Only where a library defines it so; the formula gives 0/0."),
            Choice("The same weight for all keys.", "That is what a large finite fill gives, silently."),
            Choice("An error.", "Nothing is raised: NaN appears, and shows up much later."),
        ),
    ),
    Question(
        "columns-of-padding",
        "A sample has two padded tokens at its end. What does the padding mask block?",
        Choice(
            "The columns of the padded keys, in every row.",
            "Nobody may read from padding. Rows of padded queries are computed and left out of the loss.",
        ),
        (
            Choice(
                "The rows of the padded queries.",
                "Then real tokens would still read from padding, and the blocked rows become NaN.",
            ),
            Choice(
                "The rows and the columns.",
                "Blocking rows leaves queries that may look nowhere; the loss mask is there for them.",
            ),
            Choice("The diagonal of the padded positions.", "Real queries would still see the padded keys."),
        ),
    ),
    Question(
        "shape-of-padding-mask",
        "token_ids have the shape (2, 5). Which shape has the padding mask that fits scores (B, H, T_q, "
        "T_k)?",
        Choice(
            "(2, 1, 1, 5)",
            "The same for all heads and all queries, one entry for each key: the two axes of size one "
            "broadcast.",
        ),
        (
            Choice(
                "(2, 5)",
                "It would be lined up with (T_q, T_k): an error, or silently wrong where B equals T_q.",
            ),
            Choice("(2, 1, 5, 1)", "That blocks queries, not keys."),
            Choice(
                "(1, 1, 5, 5)", "That is the same for all samples; padding differs from sample to sample."
            ),
        ),
    ),
    Question(
        "three-masks",
        "Which of these says that a padded target does not count in training?",
        Choice(
            "The loss mask.",
            "The data mask says which tokens are real, the attention mask who may look at whom, and the "
            "loss mask "
            "which predictions count. One does not replace the other.",
        ),
        (
            Choice(
                "The attention mask.",
                "It hides padded keys from queries; the padded positions still make predictions.",
            ),
            Choice("The causal mask.", "It hides later keys; padding is another matter."),
            Choice("Dropout.", "It is random and knows nothing of padding."),
        ),
    ),
    Question(
        "combine",
        "Two masks say True = allowed: causal (1, 1, T, T) and padding (B, 1, 1, T). How are they combined?",
        Choice(
            "causal & padding",
            "A key may be looked at when both rules allow it; broadcasting makes (B, 1, T, T).",
        ),
        (
            Choice(
                "causal | padding", "Then one rule could undo the other: padding in the past would be seen."
            ),
            Choice(
                "causal + padding", "True + True is 2: this happens to work as `|` does, and is no `and`."
            ),
            Choice(
                "One after the other, each with its softmax.", "One softmax is due, over what both allow."
            ),
        ),
    ),
)
