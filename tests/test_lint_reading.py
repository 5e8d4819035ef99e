"""What is read from a text without running it: values that reach a name, axes, what True means in a mask."""

import ast

import pytest

from softlookup.lint.axes import axes_of
from softlookup.lint.mask_meaning import meaning
from softlookup.lint.source import Source, number
from softlookup.lint.suppression import is_silenced
from softlookup.lint.values import reaching, written


def last_return(text):
    """Return the source and the expression that its last return hands back."""
    source = Source(text)
    return source, source.of_kind(ast.Return)[-1].value


def values(text):
    source, node = last_return(text)
    found = written(source, node)
    return None if found is None else sorted(ast.unparse(it) for it in found)


def test_the_last_assignment_counts():
    assert values("def f():\n    x = 1\n    x = 2\n    return x") == ["2"]


def test_an_assignment_below_does_not_count():
    assert values("def f():\n    x = 1\n    y = x\n    x = 2\n    return y") == ["1"]


def test_both_branches_count_and_hide_what_stands_above():
    text = "def f(a):\n    x = 1\n    if a:\n        x = 2\n    else:\n        x = 3\n    return x"
    assert values(text) == ["2", "3"]


def test_one_branch_leaves_what_stands_above():
    assert values("def f(a):\n    x = 1\n    if a:\n        x = 2\n    return x") == ["1", "2"]


def test_a_branch_that_returns_does_not_count():
    text = "def f(a):\n    x = 1\n    if a:\n        x = 2\n        return 0\n    return x"
    assert values(text) == ["1"]


def test_the_other_branch_does_not_count():
    text = "def f(a):\n    if a:\n        x = 2\n    else:\n        x = 3\n        return x"
    assert values(text) == ["3"]


def test_every_case_of_a_match_counts():
    text = "def f(a):\n    x = 1\n    match a:\n        case 1:\n            x = 2\n    return x"
    assert values(text) == ["1", "2"]


def test_names_are_followed():
    assert values("def f():\n    x = 1\n    y = x\n    return y") == ["1"]


def test_tuples_are_taken_apart():
    assert values("def f():\n    x, y = 1, 2\n    return y") == ["2"]


@pytest.mark.parametrize(
    "body",
    [
        "def f(x):\n    return x",
        "def f(x=1):\n    return x",
        "def f(a):\n    for x in a:\n        pass\n    return x",
        "def f():\n    return x",
        "def f():\n    x = 1\n    x += 1\n    return x",
        "def f(a):\n    with a as x:\n        pass\n    return x",
        "def f(a):\n    x = 1\n    return [x for x in a][0] if x else x",
    ],
)
def test_what_is_not_written_is_unknown(body):
    found = values(body)
    assert found is None or "1" not in found or "for x in a" in body


def test_a_closure_sees_what_the_outer_function_binds():
    text = "def f():\n    x = 1\n    def g():\n        return x\n    return g"
    source = Source(text)
    use = source.of_kind(ast.Return)[0].value
    assert [ast.unparse(it.value) for it in reaching(source, use)] == ["1"]


def test_a_loop_through_itself_ends():
    assert values("def f(a):\n    x = a\n    while a:\n        x = x\n    return x") is None


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("x.view(B, T, H, d).transpose(1, 2)", ("B", "H", "T", "d")),
        ("x.view(B, -1, H, d).permute(0, 2, 1, 3)", ("B", "H", None, "d")),
        ("x.reshape((B, T, C)).unsqueeze(1)", ("B", "1", "T", "C")),
        ("x.view(B, T, 3, H, d)[:, :, 0]", ("B", "T", "H", "d")),
        ("rearrange(x, 'b n (h d) -> b h n d', h=H)", ("b", "h", "n", "d")),
        ("torch.einsum('bhid,bhjd->bhij', x, x)", ("b", "h", "i", "j")),
        ("x.view(B, T, C).T", ("C", "T", "B")),
        ("x.view(B, T, C) @ y.view(B, C, D)", ("B", "T", "D")),
        ("x.view(*sizes)", None),
        ("x.view(shape)", None),
        ("x.view(sizes + (1,))", None),
        ("x.transpose(i, j)", None),
        ("x", None),
    ],
)
def test_axes_follow_the_calls(made, expected):
    source, node = last_return(f"def f(x, y):\n    return {made}")
    assert axes_of(source, node) == expected


def test_an_unpacked_shape_names_the_axes():
    source, node = last_return("def f(x):\n    B, T, _ = x.shape\n    return x")
    assert axes_of(source, node) == ("B", "T", None)


def test_a_new_value_forgets_the_unpacked_shape():
    source, node = last_return("def f(x, y):\n    B, T, C = x.shape\n    x = y\n    return x")
    assert axes_of(source, node) is None


def test_a_size_that_changes_names_nothing():
    source, node = last_return("def f(x, H):\n    B, T, C = x.shape\n    B //= H\n    return x")
    assert axes_of(source, node) == (None, "T", "C")


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("torch.tril(torch.ones(T, T)).bool()", "allowed"),
        ("torch.triu(torch.ones(T, T), diagonal=1).bool()", "blocked"),
        ("~torch.triu(torch.ones(T, T, dtype=torch.bool), 1)", "allowed"),
        ("torch.tril(torch.ones(T, T)) == 0", "blocked"),
        ("(tokens != pad_id).unsqueeze(1)", "allowed"),
        ("tokens.eq(self.tokenizer.pad_token_id)", "blocked"),
        ("torch.arange(T)[None] < lengths[:, None]", "allowed"),
        ("torch.arange(T)[None] >= lengths[:, None]", "blocked"),
        ("lengths[:, None] > torch.arange(T)", "allowed"),
        ("torch.logical_not(keep_mask)", "blocked"),
        ("1 - valid_mask", "blocked"),
        ("keep_mask & valid_mask", "allowed"),
        ("keep_mask & ~blocked_mask", "allowed"),
        ("keep_mask & blocked_mask", None),
        ("mask", None),
        ("kinds != wanted", None),
        ("torch.tril(scores)", None),
        ("torch.triu(torch.full((T, T), float('-inf')), diagonal=1)", None),
        ("torch.zeros(T, T).masked_fill(keep_mask, -1e9)", None),
    ],
)
def test_what_true_means_is_read_from_how_a_mask_is_made(made, kind):
    given = "tokens, lengths, keep_mask, valid_mask, blocked_mask, mask, T"
    source, node = last_return(f"import torch\ndef f({given}):\n    return {made}")
    found = meaning(source, node)
    assert (found and found.kind) == kind


def test_a_float_triangle_is_not_taken_for_a_boolean_mask():
    source, node = last_return("def f(T):\n    return torch.tril(torch.ones(T, T))")
    assert not meaning(source, node).boolean


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-1e9", -1e9),
        ("float('-inf')", float("-inf")),
        ("-float('inf')", float("-inf")),
        ("-math.inf", float("-inf")),
        ("+2", 2.0),
        ("True", None),
        ("x", None),
        ("'1'", None),
    ],
)
def test_written_numbers_are_read_with_their_sign(text, value):
    assert number(ast.parse(text, mode="eval").body) == value


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("# softlookup: ignore", True),
        ("# softlookup: ignore[SL801]", True),
        ("# softlookup: ignore[sl801]", True),
        ("# softlookup: ignore[SL106, dropout-not-gated]", True),
        ("#softlookup:ignore[ SL801 ]  # why", True),
        ("# softlookup: ignore[SL106]", False),
        ("# softlookup: ignored", False),
        ("# ignore", False),
    ],
)
def test_a_comment_silences_what_it_names(comment, silenced):
    assert is_silenced([f"x = 1  {comment}"], [1], ["SL801", "dropout-not-gated"]) is silenced
