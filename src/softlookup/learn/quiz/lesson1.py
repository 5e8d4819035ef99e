"""Questions about the soft lookup."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "three-jobs",
        "Why does attention project one token three times, to a query, a key and a value?",
        Choice(
            "Looking, being found and what is carried are three different jobs.",
            "What a token looks for, how it wants to be found and what it hands over need not be alike; "
            "three "
            "projections let the model learn each by itself.",
        ),
        (
            Choice(
                "Three projections make the product three times as exact.",
                "Precision does not grow with the number of projections; what changes is what can be "
                "learned.",
            ),
            Choice(
                "The softmax needs three inputs.",
                "The softmax sees scores only, and those come from queries and keys alone.",
            ),
            Choice(
                "Query, key and value must have the same width as the token.",
                "They need not: queries and keys share d_k, values may have another width d_v.",
            ),
        ),
    ),
    Question(
        "soft-and-hard",
        "A dictionary returns the value of the one key that is equal. What does a soft lookup return?",
        Choice(
            "A weighted mean of all values, with weights that sum to one.",
            "Every key gets a share by how well it fits, so a small change of the query changes the output a "
            "little, and gradients reach every key.",
        ),
        (
            Choice(
                "The value of the key that fits best.",
                "That is a hard lookup: picking one key lets no gradient through to the others.",
            ),
            Choice(
                "The sum of all values whose score is positive.",
                "Nothing is cut at zero: a negative score still gets a small positive weight.",
            ),
            Choice(
                "The mean of all values.",
                "Only when all scores are equal; otherwise keys that fit better count more.",
            ),
        ),
    ),
    Question(
        "path-length",
        "In a recurrent network, token 100 learns about token 1 through 99 steps. How is it in attention?",
        Choice(
            "Through one step: every pair is compared at once.",
            "The path between any two positions has length one, and all positions are computed side by side.",
        ),
        (
            Choice(
                "Through 99 steps as well, but they are faster.",
                "There is no chain of states at all: position 100 compares itself with position 1 directly.",
            ),
            Choice(
                "Not at all: attention sees its neighbours only.",
                "Only a window does that; without a mask all positions see each other.",
            ),
            Choice(
                "Through as many steps as there are heads.",
                "Heads work beside each other; each of them compares all pairs in one step.",
            ),
        ),
    ),
    Question(
        "where-parameters-are",
        "Which parts of an attention layer have parameters?",
        Choice(
            "The projections only.",
            "Scores, mask, softmax and mix are fixed computations; what is learned are the matrices "
            "around them.",
        ),
        (
            Choice(
                "The projections and the softmax.",
                "The softmax has none: it turns numbers into shares, always in the same way.",
            ),
            Choice(
                "The projections and the causal mask.",
                "The mask is a rule and is not trained.",
            ),
            Choice(
                "The attention weights themselves.",
                "They are computed anew for every input; the word weights misleads here.",
            ),
        ),
    ),
)
