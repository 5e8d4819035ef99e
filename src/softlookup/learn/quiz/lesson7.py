"""Questions about debugging."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "two-assertions",
        "Which two assertions should stand before you trust an attention layer?",
        Choice(
            "Rows of the weights sum to one, and hidden weights are exactly zero.",
            "Together they catch a wrong axis, a mask that comes too late and one that is too weak.",
        ),
        (
            Choice(
                "The loss falls, and the output has the right shape.",
                "Both hold with almost every attention bug: that is why these bugs live long.",
            ),
            Choice("Columns sum to one, and the diagonal is the largest.", "Neither needs to hold."),
            Choice(
                "Weights are below one, and outputs are finite.", "A softmax over the wrong axis passes both."
            ),
        ),
    ),
    Question(
        "exactly-zero",
        "Should a hidden weight be compared with 0 by allclose or exactly?",
        Choice(
            "Exactly.",
            "exp(-inf) is 0. A small number means a finite fill or a mask after the softmax, and both leak.",
        ),
        (
            Choice(
                "By allclose with 1e-6.", "1e-9 of the future is still a leak, and gradients pass through it."
            ),
            Choice("Not at all.", "It is the negative half of the test: without it the mask may do nothing."),
            Choice("By its sign.", "Weights are never negative; the sign says nothing."),
        ),
    ),
    Question(
        "value-gradient",
        "A key is hidden from every query. What must the gradient of its value be?",
        Choice(
            "Exactly zero.",
            "It took no part in any output. Anything else shows a leak that outputs alone may hide.",
        ),
        (
            Choice("Small.", "Small is not hidden."),
            Choice("The same as the others'.", "The others took part in the mix."),
            Choice("NaN.", "NaN appears where hidden values hold inf or NaN themselves: 0 * inf."),
        ),
    ),
    Question(
        "previous-token-fixture",
        "What is a synthetic fixture such as a previous-token head good for?",
        Choice(
            "One knows the right map beforehand, so that a shift by one is seen at once.",
            "Recognisable keys and values turn a question about tensors into one that the eye can answer.",
        ),
        (
            Choice("It makes the test faster.", "It may; the point is that the right answer is known."),
            Choice(
                "It replaces the comparison with a fused kernel.",
                "Both are worth having: they see other bugs.",
            ),
            Choice("It trains the head.", "Nothing is trained: queries and keys are written by hand."),
        ),
    ),
    Question(
        "observe",
        "Which number warns first that logits grow too large in a long training?",
        Choice(
            "The largest |score| before the softmax.",
            "It grows long before the loss shows anything; entropy falls with it.",
        ),
        (
            Choice("The sum of a row of weights.", "It is one for any logits."),
            Choice("The fraction of masked scores.", "It depends on the masks only."),
            Choice("The number of heads.", "It does not change in training."),
        ),
    ),
)
