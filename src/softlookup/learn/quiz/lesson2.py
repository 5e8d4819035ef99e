"""Questions about scores, shapes and the scale."""

from softlookup.learn.quiz.question import Choice, Question

QUESTIONS = (
    Question(
        "why-the-root",
        "Why are scores divided by sqrt(d_k), and not by d_k or multiplied by a learned number?",
        Choice(
            "The dot product of two vectors of independent unit-variance entries has variance d_k, so "
            "sqrt(d_k) "
            "brings its standard deviation back to one.",
            "So the softmax starts in the range where its gradients are healthy, for any width, and without "
            "anything to learn.",
        ),
        (
            Choice(
                "sqrt(d_k) is cheaper to compute than d_k.",
                "It is one number a layer; cost plays no part.",
            ),
            Choice(
                "It makes the weights sum to one.",
                "The softmax does that, whatever the scale is.",
            ),
            Choice(
                "Dividing by d_k would make scores larger.",
                "It would make them smaller: a standard deviation of 1/sqrt(d_k), and a softmax that is "
                "almost "
                "uniform at the start.",
            ),
        ),
    ),
    Question(
        "unscaled-64",
        "d_k = 64, entries of unit variance, no scale. How large is the standard deviation of the dot "
        "products?",
        Choice(
            "About 8.",
            "The variances of 64 products add up to 64; its root is 8. A softmax over such numbers often "
            "gives "
            "almost all to one key.",
        ),
        (
            Choice("About 64.", "That is the variance; the standard deviation is its root."),
            Choice("About 1.", "That is what the scale is there to reach."),
            Choice("About 1/8.", "That is the factor that undoes it."),
        ),
    ),
    Question(
        "axis-of-softmax",
        "Scores have the shape (B, H, T_q, T_k). Along which axis does the softmax run?",
        Choice(
            "The last one, T_k.",
            "Each query shares one unit of attention among the keys: a row sums to one.",
        ),
        (
            Choice(
                "T_q.",
                "Then every key would share itself among the queries: columns would sum to one, rows "
                "would not.",
            ),
            Choice("H.", "Then the heads would compete with each other for each pair of positions."),
            Choice(
                "The last two together.",
                "Then one unit would be shared by the whole matrix, and a query might get next to nothing.",
            ),
        ),
    ),
    Question(
        "saturated-softmax",
        "What is bad about a softmax that gives 0.9999 to one key from the first step on?",
        Choice(
            "Its gradient with respect to the scores is almost zero.",
            "The derivative of a weight w is w (1 - w) and -w_i w_j: near 0 and 1 nothing is left, and the "
            "layer hardly learns where to look.",
        ),
        (
            Choice("The row no longer sums to one.", "It does: 0.9999 and the small rest."),
            Choice(
                "The other keys get exactly zero.",
                "They get something small, not exactly zero; the trouble is the gradient.",
            ),
            Choice("The values overflow.", "A weighted mean stays within the range of the values."),
        ),
    ),
    Question(
        "dot-t",
        "k has the shape (B, T, d). What is wrong with q @ k.T?",
        Choice(
            "`.T` turns around all axes, also the batch; only the last two should change places.",
            "k.transpose(-2, -1) swaps the last two axes and leaves the batch where it is.",
        ),
        (
            Choice(
                "Nothing, it is a short form.", "Only for a matrix; with a batch the shape becomes (d, T, B)."
            ),
            Choice("It copies the keys.", "It is a view; the trouble is the order of the axes."),
            Choice(
                "It detaches the gradient.",
                "Gradients pass through it; the trouble is the order of the axes.",
            ),
        ),
    ),
    Question(
        "widths-that-must-agree",
        "Which sizes have to agree in scaled dot-product attention?",
        Choice(
            "The widths of queries and keys, and the numbers of keys and values.",
            "Each query is multiplied with each key, and each key hands over one value. T_q and T_k may "
            "differ, "
            "and so may d_k and d_v.",
        ),
        (
            Choice(
                "The numbers of queries and keys.",
                "They may differ: 4 target positions may look at 7 source positions.",
            ),
            Choice(
                "The widths of keys and values.",
                "They may differ: keys are for finding, values for carrying.",
            ),
            Choice("All of them.", "T_q and T_k may differ, and so may d_k and d_v."),
        ),
    ),
)
