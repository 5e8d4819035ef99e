"""Questions about self-attention, cross-attention and maps."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "sources",
        "Where do q, k and v come from in self-attention, and where in cross-attention?",
        Choice(
            "Self: all from one sequence. Cross: q from the target, k and v from the source.",
            "The target asks, the source is looked at; keys and values belong together and come from one "
            "place.",
        ),
        (
            Choice(
                "Self: all from one sequence. Cross: q and k from the target, v from the source.",
                "Then keys and values would not belong together: what is found is not what is read.",
            ),
            Choice(
                "Self: q from the input, k and v from the output. Cross: all from the source.",
                "In self-attention there is one sequence only, and cross-attention needs both.",
            ),
            Choice("They never differ.", "Then a decoder could not read what the encoder has made."),
        ),
    ),
    Question(
        "cross-shapes",
        "4 target positions look at 7 source positions with H heads. Which shape do the scores have?",
        Choice(
            "(B, H, 4, 7)", "One row for each query of the target, one column for each key of the source."
        ),
        (
            Choice("(B, H, 7, 4)", "Rows are queries: 4 of them ask."),
            Choice("(B, H, 4, 4)", "The keys come from the source, which has 7 positions."),
            Choice("(B, H, 11, 11)", "The two sequences are not put together."),
        ),
    ),
    Question(
        "source-padding",
        "In cross-attention with lengths 4 (target) and 7 (source): how long is a padding mask for the keys?",
        Choice("7", "It says which source tokens are real: those are the keys."),
        (
            Choice("4", "That is the target's padding: it belongs to the loss mask."),
            Choice("11", "The sequences are not put together."),
            Choice("28", "One entry for each key is enough; it holds for all queries."),
        ),
    ),
    Question(
        "reading-maps",
        "A head gives 0.8 of its weight to one token. What may you say?",
        Choice(
            "In this step 0.8 of the mix came from that position's value; whether it mattered needs an "
            "experiment.",
            "A map is a record of one routing step. Change the token, remove the position or ablate the "
            "head, "
            "and compare outputs.",
        ),
        (
            Choice(
                "That token is the reason for the prediction.",
                "The value may be small, later layers may undo it, and other maps may give the same output.",
            ),
            Choice(
                "The model understands the relation of the two words.",
                "A weight is no statement about understanding.",
            ),
            Choice(
                "The other tokens do not matter.",
                "0.2 is left for them, and there are other heads, layers and the residual path.",
            ),
        ),
    ),
    Question(
        "remove-a-source",
        "How is one source position removed in a controlled experiment?",
        Choice(
            "As if it had been masked before the softmax: the other weights of the row grow to sum to one.",
            "So one learns what this layer would have done without that position.",
        ),
        (
            Choice(
                "By setting its weight to 0 afterwards.",
                "Then the row sums to less than one: two things change at once, and one cannot tell them "
                "apart.",
            ),
            Choice("By setting its token to zero.", "A zero vector has a key too, and gets weight."),
            Choice(
                "By deleting the row of the map.",
                "Rows are queries; to remove a source is to remove a column.",
            ),
        ),
    ),
    Question(
        "causal-map",
        "What has to hold in the map of a causal head?",
        Choice(
            "Everything above the diagonal is exactly 0.",
            "A hidden weight is exactly zero; almost zero means that the mask came too late or was too weak.",
        ),
        (
            Choice("The diagonal is the largest.", "A head may prefer any earlier position."),
            Choice(
                "Columns sum to one.",
                "Rows do. A column may sum to anything: a first token is often seen much.",
            ),
            Choice(
                "Rows differ from each other.",
                "At initialisation they may be nearly the same; that is no fault.",
            ),
        ),
    ),
)
