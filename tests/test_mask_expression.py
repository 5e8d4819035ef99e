"""A mask in words: what is printed reads back, what is wrong is shown at its place, and nothing is run."""

import inspect
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import SoftlookupError, masks
from softlookup.masks import Bias, Mask, alibi, causal, documents, padding, sliding_window
from softlookup.masks.expression import read_mask_expression

NUMBERS = st.integers(1, 1000)
SEVERAL = st.one_of(NUMBERS, st.lists(NUMBERS, min_size=2, max_size=2), st.tuples(NUMBERS, NUMBERS))
CORNERS = st.sampled_from(["top-left", "bottom-right"])
LEAVES = st.one_of(
    st.builds(causal, CORNERS),
    st.builds(padding, SEVERAL, st.sampled_from(["right", "left"])),
    st.builds(sliding_window, NUMBERS, st.sampled_from(["keys", "lookback", "each side"]), CORNERS),
    st.builds(masks.dilated, NUMBERS, NUMBERS, CORNERS),
    st.builds(masks.prefix_lm, SEVERAL, CORNERS),
    st.builds(lambda cut, corner: masks.packed([0, cut, 1000], corner), NUMBERS, CORNERS),
    st.builds(
        masks.chunked,
        NUMBERS,
        st.sampled_from(["own chunk", "own chunk up to itself", "own and earlier chunks"]),
        CORNERS,
    ),
    st.builds(lambda n: masks.visibility("window_counts_keys", window=n), NUMBERS),
    st.builds(lambda n: masks.visibility("padding_left", lengths=n), SEVERAL),
)
TREES = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.builds(lambda a, b: a & b, part, part),
        st.builds(lambda a, b: a | b, part, part),
        part.map(lambda a: ~a),
    ),
    max_leaves=8,
)
NAMES = "causal padding sliding_window documents alibi visibility packed exit __import__ corner lambda not if"
SIGNS = "( ) [ ] { } , = := * ** & | ~ - + . : ... 0 1 3 1e999 2j 9999999999999 'keys' f'{1}' b'' \" ' \\ #"
WORDS = [*NAMES.split(), *SIGNS.split(), " for ", " in ", "\n", "\0", "é", "\udcff"]


def marked(error):
    """Return what the caret of a refusal points at."""
    _, shown, caret, *_ = str(error).splitlines()
    assert set(caret.strip()) == {"^"}
    return shown[caret.index("^") : caret.rindex("^") + 1]


# What reads


@given(TREES)
@settings(deadline=None)
def test_what_a_mask_prints_reads_back_to_it(mask):
    assert read_mask_expression(repr(mask)) == mask


@given(NUMBERS, CORNERS, TREES)
@settings(deadline=None, max_examples=25)
def test_what_a_bias_prints_reads_back_to_it(heads, corner, mask):
    for bias in (alibi(heads, corner), alibi(heads, corner) & mask):
        assert read_mask_expression(repr(bias)) == bias


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("causal", causal()),
        ('causal("bottom-right")', causal("bottom-right")),
        ("causal(corner='bottom-right')", causal("bottom-right")),
        ("causal & padding([5, 3])", causal() & padding([5, 3])),
        ("  causal\n& padding(5, 3)\t", causal() & padding([5, 3])),
        ('padding(5, 3, "left")', padding([5, 3], "left")),
        ("padding(5, 'left')", padding(5, "left")),
        ("prefix_lm(2, 4)", masks.prefix_lm([2, 4])),
        ("packed(0, 3, 5) & causal", masks.packed([0, 3, 5]) & causal()),
        ("dilated(4, 2)", masks.dilated(4, 2)),
        ("causal | padding(1) & padding(2)", causal() | (padding(1) & padding(2))),
        ("(causal | padding(1)) & padding(2)", (causal() | padding(1)) & padding(2)),
        ("~causal & padding(2)", ~causal() & padding(2)),
        ("~(causal & padding(2))", ~(causal() & padding(2))),
        ("~~causal", causal()),
        (
            '~sliding_window(4, "each side") | documents([[0, 0, 1]])',
            ~sliding_window(4, "each side") | documents(torch.tensor([[0, 0, 1]])),
        ),
        ("documents([[0, 0], [-1, 2]])", documents(torch.tensor([[0, 0], [-1, 2]]))),
        (
            "padding_of([[7, 9]], pad_id=-100)",
            masks.padding_of(torch.tensor([[7, 9]]), -100),
        ),
        (
            "visibility('same_document', document_ids=[[1, 2]])",
            masks.visibility("same_document", document_ids=torch.tensor([[1, 2]])),
        ),
        ("alibi(8) & causal", alibi(8) & causal()),
        ("causal & alibi(8) & padding(2)", alibi(8) & causal() & padding(2)),
    ],
    ids=str,
)
def test_words_build_what_python_would_build(text, mask):
    assert read_mask_expression(text) == mask


def test_every_builder_that_gives_a_mask_or_a_bias_has_its_name():
    with pytest.raises(SoftlookupError) as refusal:
        read_mask_expression("nothing_like_it")
    known = str(refusal.value).partition("expected: ")[2].splitlines()[0].split(", ")
    public = [getattr(masks, name) for name in masks.__all__]
    makers = [it.__name__ for it in public if inspect.isfunction(it) and not it.__name__.startswith("make_")]
    assert sorted(known) == sorted(set(makers) - {"rule_file", "rule_names"})


def test_a_list_of_ids_may_be_long():
    ids = torch.arange(2 * 8192).view(2, 8192) // 512
    assert read_mask_expression(f"documents({ids.tolist()}) & causal") == documents(ids) & causal()


# What is refused, at its place


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("causal & paddin(3)", "paddin", "did you mean padding or padding_of?"),
        ("causal & padding(3) | nope", "nope", "no mask is called 'nope'"),
        ("causal & sliding_window(0)", "sliding_window(0)", "at least 1"),
        ("padding([3, 5]) & padding(1, 2, 3)", "padding([3, 5]) & padding(1, 2, 3)", "the same B"),
        ("padding(length=3)", "length=3", "did you mean lengths?"),
        ("causal & padding()", "padding()", r"expected: padding\(lengths, side='right'\)"),
        ("causal('bottom-right', 3)", "causal('bottom-right', 3)", "too many positional arguments"),
        ("padding(3, lengths=4)", "padding(3, lengths=4)", "multiple values"),
        ("padding(lengths=3, lengths=4)", "4", "each name once"),
        ("padding(**3)", "3", "name=argument"),
        ("padding(*[3])", "*[3]", "cannot be read"),
        ("sliding_window(4, lookback)", "lookback", 'in quotes: "lookback"'),
        ("causal(bottom-right)", "bottom-right", 'in quotes: "bottom-right"'),
        ("sliding_window(4, each side)", "e", 'go in quotes: "each side"'),
        ("sliding_window(4, 'each sied')", "sliding_window(4, 'each sied')", "or 'each side'"),
        ('sliding_window("é", nope)', "nope", "in quotes"),
        ("padding(True)", "True", "a whole number"),
        ("padding(3.5)", "3.5", "a whole number"),
        ("padding(2147483648)", "2147483648", "up to 2,147,483,647"),
        ("padding(-1)", "padding(-1)", "at least 0"),
        ("padding([[3]])", "padding([[3]])", "at least 0"),
        ("alibi(65537)", "65537", "at most 65,536 heads"),
        ("documents([1, 3])", "[1, 3]", "for each sample a list"),
        ("documents(3)", "3", "for each sample a list"),
        ("documents([[1], [1, 2]])", "[[1], [1, 2]]", "all equally long"),
        ("documents([['a']])", "[['a']]", "whole numbers"),
        ("documents([])", "[]", "for each sample a list"),
        ("causal and padding(3)", "causal and padding(3)", "instead of and, or, not"),
        ("causal & (not padding(3))", "not padding(3)", "instead of and, or, not"),
        ("causal + padding(3)", "causal + padding(3)", "names with & | ~ between them"),
        ("masks.causal()", "masks.causal()", "without its module"),
        ("causal()()", "causal()()", "names with"),
        ("'causal'", "'causal'", "names with"),
        ("causal & 3", "3", "names with"),
        ("~alibi(8)", "alibi(8)", "a bias hides nothing"),
        ("causal | alibi(8)", "alibi(8)", "a bias hides nothing"),
        ("alibi(8) & alibi(8)", "alibi(8)", "a bias hides nothing"),
        ("visibility(3)", "visibility(3)", r"expected: visibility\(name, parameter=\.\.\., \.\.\.\)"),
        ("visibility('nope')", "visibility('nope')", "no rule is called 'nope'"),
        ("visibility('causal_top_left', x=1)", "visibility('causal_top_left', x=1)", "no parameter"),
        (
            "visibility('causal_top_left', function=1)",
            "visibility('causal_top_left', function=1)",
            "function",
        ),
        ("causal)", ")", "unmatched"),
    ],
    ids=str,
)
def test_what_is_wrong_is_shown_at_its_place(text, place, words):
    with pytest.raises(SoftlookupError, match=words) as refusal:
        read_mask_expression(text)
    assert marked(refusal.value) == place


def test_the_place_of_what_is_missing_is_the_end():
    with pytest.raises(SoftlookupError) as refusal:
        read_mask_expression("causal &")
    assert str(refusal.value).splitlines()[1:3] == ["  causal &", "          ^"]


@given(st.integers(0, 40), st.integers(0, 40))
@settings(deadline=None, max_examples=25)
def test_the_place_is_in_view_in_a_long_text(before, after):
    text = " & ".join(["packed(0, 1)"] * before + ["pakked"] + ["causal"] * after)
    with pytest.raises(SoftlookupError) as refusal:
        read_mask_expression(text)
    if before + after < 40:  # more are too many inside each other
        assert marked(refusal.value) == "pakked"
        assert before == 0 or "packed(0, 1) & pakked" in str(refusal.value)
    assert max(map(len, str(refusal.value).splitlines())) <= 130


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "expected: a text"),
        (" \n", "got:      nothing"),
        ("causal\0", "characters that can be printed"),
        ("causal & \udcff", "characters that can be printed"),
        ("padding(" + "1, " * 100_000 + "1)", "at most 200,000 characters"),
        ("(" * 100 + "causal" + ")" * 100, "at most 50"),
        ("[" * 10_000, "at most 50"),
        ("~" * 60 + "causal", "at most 50"),
        ("~" * 1_999, "at most 50|invalid syntax"),
        ("~" * 100_000, "at most 50"),
        ("1-1" * 30_000, "at most 50"),
        ("causal" + " & causal" * 60, "at most 50"),
        ("padding(" + "9" * 10_000 + ")", "up to 2,147,483,647|at most 50|integer string conversion"),
    ],
    ids=lambda it: str(it)[:12],
)
def test_a_text_that_is_none_or_too_much_is_refused_at_once(text, words):
    with pytest.raises(SoftlookupError, match=words):
        read_mask_expression(text)


# Nothing runs

SEEN = []
LISTENING = [False]
sys.addaudithook(
    lambda event, _: (
        SEEN.append(event) if LISTENING[0] and event.startswith(("exec", "open", "os.", "sub")) else None
    )
)


def read_watched(text):
    """Return the mask or None, after a look that nothing was run on the way."""
    read_mask_expression("causal & documents([[0]])")  # what is imported on first use is
    SEEN.clear()
    LISTENING[0] = True
    try:
        return read_mask_expression(text)
    except SoftlookupError:
        return None
    finally:
        LISTENING[0] = False
        assert not SEEN


def test_the_watch_would_see_it():
    LISTENING[0] = True
    eval("1")
    LISTENING[0] = False
    assert "exec" in SEEN
    SEEN.clear()


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "open('made', 'w')",
        "padding(open('made', 'w'))",
        "padding(lengths=__import__('os').getpid())",
        "causal & [exit() for _ in (1,)][0]",
        "(lambda: exit())()",
        "causal(f'{exit()}')",
        "(mask := causal())",
        "causal().__class__.__mro__[1].__subclasses__()",
        "causal if exit() else causal",
        "eval('causal')",
        "await causal",
    ],
)
def test_code_is_refused_and_not_run(text):
    assert read_watched(text) is None


@given(st.one_of(st.text(), st.lists(st.sampled_from(WORDS), max_size=12).map("".join)))
@settings(deadline=None, max_examples=300)
def test_any_text_is_a_mask_or_refused_in_words(text):
    assert isinstance(read_watched(text), (Mask, Bias, type(None)))
