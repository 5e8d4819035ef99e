"""Questions about fewer keys: groups, windows, blocks, caches."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "grouped-heads",
        "8 query heads share 2 key/value heads. Which key/value head do query heads 0 to 3 use?",
        Choice("Head 0.", "Neighbours share: repeat_interleave(4) gives 0 0 0 0 1 1 1 1."),
        (
            Choice(
                "Heads 0, 1, 0, 1.", "That is tiling: weights trained for groups would meet the wrong heads."
            ),
            Choice("The mean of both.", "Each query head has one key/value head."),
            Choice("Head 1.", "That one serves query heads 4 to 7."),
        ),
    ),
    Question(
        "window",
        "A sliding window of 3 keys, the query's own included. What may query 5 look at?",
        Choice("3, 4 and 5.", "Itself and the two before it: three keys in all."),
        (
            Choice("2, 3, 4 and 5.", "These are four: here the window counts the keys before the query."),
            Choice("4, 5 and 6.", "6 comes later: a causal window looks backwards only."),
            Choice("3 and 4.", "A query sees its own key too."),
        ),
    ),
    Question(
        "online-softmax",
        "Keys come in blocks. What must be done with what is summed so far when a larger score appears?",
        Choice(
            "Multiply it by exp(old maximum - new maximum).",
            "All terms are then relative to the same maximum, as if it had been known from the start.",
        ),
        (
            Choice("Start again from this block.", "Then what came before would be forgotten."),
            Choice(
                "Nothing: sums of exponentials just add up.", "They were taken relative to another maximum."
            ),
            Choice("Take the mean of both blocks.", "Blocks with larger scores have to count more."),
        ),
    ),
    Question(
        "cache-saves",
        "What does a key/value cache save in decoding?",
        Choice(
            "The projections of earlier tokens, which do not change.",
            "Only the new token's q, k and v are computed; its query looks at all cached keys.",
        ),
        (
            Choice(
                "The attention weights of earlier steps.",
                "They are not needed any more: each step has its own.",
            ),
            Choice("All memory.", "The cache costs memory, B * H_kv * T * d_head, twice in each layer."),
            Choice("The softmax.", "Every new query needs its own."),
        ),
    ),
    Question(
        "one-query-cache",
        "One new query meets a cache of 9 keys and its own. Which of the 10 keys may it see?",
        Choice(
            "All of them.",
            "It is the last position: nothing comes after it. No causal mask is needed for this one row.",
        ),
        (
            Choice(
                "The first only.", "That is what is_causal=True gives here: its corner is the upper left."
            ),
            Choice("The last only.", "Then the cache would be useless."),
            Choice("Nine: not itself.", "A query sees its own key too."),
        ),
    ),
)
