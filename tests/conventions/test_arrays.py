"""JAX, flax, Keras and ONNX: what their arguments hide is measured with the real call, and read the same."""

import itertools
import math

import pytest
import torch

import softlookup
from softlookup import SoftlookupError
from softlookup.conventions import convert, find_convention
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.measuring import problem, weights_by
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask, causal, documents, padding, sliding_window
from softlookup.masks.expression import read_mask_expression

JAX, LINEN, NNX, KERAS, ONNX = "jax", "flax", "nnx", "keras", "onnx"
pytest.importorskip("numpy", reason="the arguments are arrays")
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's

NAMES = [JAX, LINEN, NNX, KERAS, ONNX]
B, H = 2, 2
LENGTHS = [(4, 6), (6, 4), (5, 5)]
TAKES = [(name, take) for name in NAMES for take in find_convention(name)[0].takes]


def library(name):
    convention, _ = find_convention(name)
    if not convention.installed:
        pytest.skip(f"{' and '.join(convention.needs)} not installed")
    return convention


def read(arguments, name, sizes):
    return read_mask(arguments, name, sizes).mask.dense(sizes.q_len, sizes.k_len).expand(B, H, -1, -1)


def measured(name, arguments, sizes):
    return weights_by(library(name), arguments, sizes) > 0


def check_reading(name, arguments, sizes):
    """A row that sees nothing is not compared: what it gets is the library's choice."""
    wanted = read(arguments, name, sizes)
    some = wanted.any(-1)
    assert torch.equal(measured(name, arguments, sizes)[some], wanted[some]), arguments
    return some


def random_allowed(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) > 0.4


def array(tensor):
    return tensor.numpy()


def hidden(*shape, seed=0):
    """A bias of -inf where a random mask hides."""
    return array(torch.zeros(shape).masked_fill(~random_allowed(*shape, seed=seed), -math.inf))


# What an entry means


@pytest.mark.parametrize(("name", "take"), TAKES, ids=[f"{n}-{t.argument}-{t.dtype}" for n, t in TAKES])
def test_every_argument_means_in_every_shape_what_is_declared(name, take):
    sizes = Sizes(4, 6, B, 3)
    axes = {"B": B, "H": 3, "T_q": 4, "T_k": 6}
    dtype = {"bool": torch.bool, "int": torch.int64, "float": torch.float32}[take.dtype]
    q, k, _ = problem(sizes)
    scores = q @ k.mT / 4
    for shape in take.shapes:
        entries = random_allowed(*(axes[axis] for axis in shape.split()))
        full = entries.view([axes[axis] if axis in shape.split() else 1 for axis in axes])
        if take.meaning == "additive":
            wanted = scores + full
        else:
            full = full | (full.sum(-1, keepdim=True) == 0)  # a row without keys is the library's choice
            entries = full.view(entries.shape)
            wanted = scores.masked_fill(~full, -math.inf)
        given = array(entries.to(dtype))
        torch.testing.assert_close(
            weights_by(library(name), {take.argument: given}, sizes), wanted.softmax(-1), msg=shape
        )


@pytest.mark.parametrize("name", [LINEN, NNX, KERAS])
@pytest.mark.parametrize("number", [2.0, -1.0, 0.3, -math.inf, math.nan])
def test_every_number_but_0_shows_the_key(name, number):
    allowed = random_allowed(4, 6) | torch.eye(4, 6, dtype=torch.bool)
    argument = find_convention(name)[0].takes[0].argument
    arguments = {argument: array(torch.where(allowed, number, 0.0))}
    assert torch.equal(read(arguments, name, Sizes(4, 6, B, H))[0, 0], allowed)
    check_reading(name, arguments, Sizes(4, 6, B, H))


@pytest.mark.parametrize("name", [JAX, ONNX])
def test_integers_that_are_added_to_scores_hide_nothing(name):
    flags = array(random_allowed(4, 6).long())
    argument = {JAX: "bias", ONNX: "attn_mask"}[name]
    assert measured(name, {argument: flags}, Sizes(4, 6, B, H)).all()
    if name == JAX:
        reading = read_mask({"bias": flags}, JAX, Sizes(4, 6, B, H))
        assert reading.mask.dense(4, 6).all()
        assert "0/1 flags" in reading.lost[0]
    else:
        with pytest.raises(SoftlookupError, match="does not say what its numbers mean"):
            read_mask(flags, ONNX, Sizes(4, 6, B, H))


@pytest.mark.parametrize("name", NAMES)
def test_axes_of_one_are_repeated(name):
    argument = find_convention(name)[0].takes[0].argument
    for shape in ((1, 6), (B, 1, 1, 6), (1, 1, 4, 6), (1, 1, 1, 6)):
        allowed = random_allowed(*shape, seed=2)
        arguments = {argument: array(allowed)}
        assert torch.equal(read(arguments, name, Sizes(4, 6, B, H)), allowed.expand(B, H, 4, 6))
        assert check_reading(name, arguments, Sizes(4, 6, B, H)).any()


@pytest.mark.parametrize("name", [JAX, LINEN, NNX, ONNX])
def test_the_first_of_three_axes_is_heads(name):
    allowed = random_allowed(H, 4, 6)
    arguments = {find_convention(name)[0].takes[0].argument: array(allowed)}
    assert torch.equal(read(arguments, name, Sizes(4, 6, B, H)), allowed.expand(B, H, 4, 6))
    check_reading(name, arguments, Sizes(4, 6, B, H))


def test_the_first_of_three_axes_is_samples_in_keras():
    allowed = random_allowed(B, 4, 6)
    wanted = allowed[:, None].expand(B, H, 4, 6)
    assert torch.equal(read({"attention_mask": array(allowed)}, KERAS, Sizes(4, 6, B, H)), wanted)
    check_reading(KERAS, {"attention_mask": array(allowed)}, Sizes(4, 6, B, H))


# Corners and windows


@pytest.mark.parametrize("name", [JAX, NNX, KERAS, ONNX])
@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS)
def test_causal_starts_at_the_first_key(name, q_len, k_len):
    arguments, sizes = find_convention(name)[0].causal, Sizes(q_len, k_len, B, H)
    wanted = torch.ones(q_len, k_len).tril().bool().expand(B, H, -1, -1)
    assert torch.equal(measured(name, arguments, sizes), wanted)
    assert torch.equal(read(arguments, name, sizes), wanted)


@pytest.mark.parametrize(
    ("name", "arguments", "first", "last"),
    [
        (JAX, {"local_window_size": 2}, -2, 2),
        (JAX, {"local_window_size": (2, 0)}, -2, 0),
        (JAX, {"local_window_size": (2, 1)}, -2, 1),
        (JAX, {"local_window_size": (0, 2)}, 0, 2),
        (JAX, {"local_window_size": (-1, 3)}, 1, 3),
        (JAX, {"local_window_size": (3, -1)}, -3, -1),
        (JAX, {"local_window_size": 2, "is_causal": True}, -2, 0),
        (JAX, {"local_window_size": (3, -1), "is_causal": True}, -3, -1),
        (KERAS, {"sliding_window": 1}, 0, 0),
        (KERAS, {"sliding_window": 3}, -2, 2),
        (KERAS, {"sliding_window": 3, "use_causal_mask": True}, -2, 0),
        (ONNX, {"left_window_size": 2}, -2, 8),
        (ONNX, {"right_window_size": 1}, -8, 1),
        (ONNX, {"left_window_size": 2, "right_window_size": -1}, -2, 8),
        (ONNX, {"left_window_size": 2, "right_window_size": 1}, -2, 1),
        (ONNX, {"left_window_size": 2, "is_causal": 1}, -2, 0),
        (ONNX, {"left_window_size": 2, "right_window_size": 1, "is_causal": 1}, -2, 0),
        (ONNX, {"right_window_size": 0, "past_key": "two"}, -8, 2),
    ],
)
def test_a_window_counts_keys_from_the_querys_own(name, arguments, first, last):
    for q_len, k_len in ((9, 9), (5, 8), (8, 5)):
        sizes = Sizes(q_len, k_len, B, H)
        distance = torch.arange(k_len) - torch.arange(q_len)[:, None]
        wanted = ((distance >= first) & (distance <= last)).expand(B, H, -1, -1)
        if "past_key" in arguments:
            seen, reading = with_past(2, arguments, sizes)
            assert torch.equal(seen, wanted)
            assert torch.equal(reading, wanted)
            continue
        assert torch.equal(read(arguments, name, sizes), wanted)
        check_reading(name, arguments, sizes)


def with_past(past, arguments, sizes):
    """Call ONNX with the first keys as a cache; return what is seen, and what is read."""
    q, k, v = problem(sizes)
    arguments = arguments | {"past_key": array(k[:, :, :past]), "past_value": array(v[:, :, :past])}
    new_k, new_v = k[:, :, past:].contiguous(), v[:, :, past:].contiguous()
    seen = library(ONNX).run(q, new_k, new_v, arguments)[..., : sizes.k_len] > 0
    return seen, read(arguments, ONNX, sizes)


# Everything together


def subsets(options):
    """Every choice of one value for each argument; None leaves it out."""
    for values in itertools.product(*([None, *choices] for choices in options.values())):
        yield {name: value for name, value in zip(options, values, strict=True) if value is not None}


@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS[:2])
def test_all_arguments_of_jax_hold_together(q_len, k_len):
    options = {
        "mask": [array(random_allowed(1, H, q_len, k_len)), array(random_allowed(B, 1, 1, k_len))],
        "bias": [hidden(q_len, k_len, seed=5)],
        "is_causal": [True],
        "query_seq_lengths": [[2, 9]],
        "key_value_seq_lengths": [[3, 9]],
        "local_window_size": [(1, 2)],
    }
    sizes = Sizes(q_len, k_len, B, H)
    assert sum(bool(check_reading(JAX, them, sizes).any()) for them in subsets(options)) > 80


@pytest.mark.parametrize("name", [LINEN, NNX])
@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS[:2])
def test_all_arguments_of_flax_hold_together(name, q_len, k_len):
    options = {
        "mask": [array(random_allowed(1, H, q_len, k_len)), array(random_allowed(B, 1, 1, k_len))],
        "bias": [hidden(q_len, k_len, seed=5)],
    }
    if name == NNX:
        options["is_causal"] = [True]
    sizes = Sizes(q_len, k_len, B, H)
    assert all(check_reading(name, them, sizes).any() for them in subsets(options))


@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS[:2])
def test_all_arguments_of_keras_hold_together(q_len, k_len):
    options = {
        "attention_mask": [
            array(random_allowed(q_len, k_len)),
            array(random_allowed(B, q_len, k_len)),
            array(random_allowed(B, H, q_len, k_len)),
        ],
        "query_mask": [array(random_allowed(B, q_len, seed=4))],
        "value_mask": [array(random_allowed(B, k_len, seed=5).int())],
        "key_mask": [array(random_allowed(B, k_len, seed=6))],
        "use_causal_mask": [True],
        "sliding_window": [3],
    }
    sizes = Sizes(q_len, k_len, B, H)
    assert sum(bool(check_reading(KERAS, them, sizes).any()) for them in subsets(options)) > 80


@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS[:2])
def test_all_arguments_of_onnx_hold_together(q_len, k_len):
    options = {
        "attn_mask": [
            array(random_allowed(1, H, q_len, k_len)),
            array(random_allowed(B, 1, q_len, k_len - 1)),
            hidden(q_len, k_len),
        ],
        "is_causal": [1],
        "nonpad_kv_seqlen": [array(torch.tensor([3, k_len])), array(torch.tensor([k_len - 1, k_len - 1]))],
        "left_window_size": [1],
        "right_window_size": [0, 2],
    }
    sizes = Sizes(q_len, k_len, B, H)
    assert sum(bool(check_reading(ONNX, them, sizes).any()) for them in subsets(options)) > 100


@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_past_keys_of_onnx_count_among_the_keys(is_causal, masked):
    arguments = {"is_causal": is_causal}
    if masked:
        arguments["attn_mask"] = array(random_allowed(4, 6) | torch.eye(4, 6, dtype=torch.bool))
    seen, reading = with_past(2, arguments, Sizes(4, 6, B, H))
    assert torch.equal(seen, reading)
    assert reading.all() == (not masked and not is_causal)


# Masks that the libraries make


@pytest.mark.parametrize("name", [LINEN, NNX])
def test_the_masks_that_flax_makes_are_read(name):
    library(name)
    import flax.linen
    import flax.nnx
    import jax.numpy as jnp

    makes = {LINEN: flax.linen, NNX: flax.nnx}[name]
    tokens = jnp.array([[7, 7, 7, 0, 0], [7, 7, 7, 7, 7]])
    keys = padding([3, 5]).dense(5, 5)
    causal_mask = makes.make_causal_mask(tokens)
    real = makes.make_attention_mask(jnp.ones_like(tokens), tokens > 0)
    both = makes.combine_masks(causal_mask, real)
    wanted = {"causal": causal().dense(5, 5), "padding": keys, "both": causal().dense(5, 5) & keys}
    for made, allowed in zip((causal_mask, real, both), wanted.values(), strict=True):
        assert made.dtype == jnp.float32
        assert torch.equal(read({"mask": made}, name, Sizes(5, 5, B, H)), allowed.expand(B, H, -1, -1))
        check_reading(name, {"mask": made}, Sizes(5, 5, B, H))


def test_arrays_of_every_library_are_taken():
    import numpy

    allowed = torch.ones(3, 3).tril().bool()
    taken = [
        (JAX, allowed.numpy()),
        (JAX, allowed),
        (JAX, allowed.tolist()),
        (LINEN, numpy.tril(numpy.ones((3, 3)))),
    ]
    if find_convention(JAX)[0].installed:
        import jax.numpy as jnp

        taken += [(JAX, jnp.asarray(allowed.numpy())), (LINEN, jnp.asarray(allowed.numpy(), jnp.bfloat16))]
        taken += [(JAX, {"bias": jnp.where(allowed.numpy(), 0, -1e9).astype(jnp.bfloat16)})]
    if find_convention(KERAS)[0].installed:
        weights_by(find_convention(KERAS)[0], {}, Sizes(2, 2))  # imports it as run does
        import keras

        taken += [
            (KERAS, keras.ops.convert_to_tensor(allowed.numpy())),
            (KERAS, keras.ops.tril(keras.ops.ones((3, 3)))),
        ]
    for source, mask in taken:
        written = convert(mask, source=source, target="allowed_mask", q_len=3, k_len=3)["allowed_mask"]
        assert torch.equal(written[0, 0], allowed), (source, type(mask))


# Rows without keys, as the pages say


def blind_row(name, arguments):
    return weights_by(library(name), arguments, Sizes(4, 6, B, H))[0, 0, 1]


NOTHING = array(torch.ones(4, 6).index_fill(0, torch.tensor(1), 0).bool())


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (JAX, {"mask": NOTHING}),
        (LINEN, {"mask": NOTHING}),
        (NNX, {"mask": NOTHING}),
        (KERAS, {"attention_mask": NOTHING}),
    ],
)
def test_a_query_without_keys_gets_the_mean(name, arguments):
    torch.testing.assert_close(blind_row(name, arguments), torch.full((6,), 1 / 6))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (JAX, {"query_seq_lengths": [1, 4]}),
        (ONNX, {"attn_mask": NOTHING}),
        (ONNX, {"attn_mask": array(torch.zeros(4, 6).index_fill(0, torch.tensor(1), -math.inf))}),
        (ONNX, {"nonpad_kv_seqlen": array(torch.tensor([0, 6]))}),
    ],
)
def test_a_query_without_keys_gets_zeros(name, arguments):
    assert not blind_row(name, arguments).any()


def test_a_query_without_keys_gets_nan_from_a_bias_of_jax():
    assert blind_row(JAX, {"bias": array(torch.full((4, 6), -math.inf))}).isnan().all()


def test_a_query_without_keys_gets_zeros_from_keras_beside_its_scores():
    library(KERAS)
    blind_row(KERAS, {})  # imports it as run does
    import keras

    layer = keras.layers.MultiHeadAttention(2, 4)
    x, y = torch.randn(1, 4, 8).numpy(), torch.randn(1, 6, 8).numpy()
    _, scores = layer(x, y, attention_mask=NOTHING[None], return_attention_scores=True)
    assert not keras.ops.convert_to_numpy(scores)[0, :, 1].any()


# What the pages say of single libraries


def test_keras_overwrites_a_query_mask_by_the_one_that_query_carries():
    library(KERAS)
    tokens = array(torch.tensor([[True, True, False, False], [True] * 4]))
    carried = weights_by(library(KERAS), {"query_mask": tokens}, Sizes(4, 6, B, H))
    torch.testing.assert_close(carried[0, :, 2:], torch.full((H, 2, 6), 1 / 6))
    import keras

    layer, x, y = (
        keras.layers.MultiHeadAttention(2, 4),
        torch.randn(B, 4, 8).numpy(),
        torch.randn(B, 6, 8).numpy(),
    )
    given, without = (keras.ops.convert_to_numpy(layer(x, y, **it)) for it in ({"query_mask": tokens}, {}))
    assert (given == without).all()


def test_the_mask_of_an_embedding_is_a_value_mask_and_a_query_mask():
    library(KERAS)
    weights_by(library(KERAS), {}, Sizes(2, 2))  # imports it as run does
    import keras

    token_ids = torch.tensor([[5, 3, 0, 0], [2, 2, 2, 1]])
    x = keras.layers.Embedding(8, 8, mask_zero=True)(token_ids.numpy())
    layer = keras.layers.MultiHeadAttention(2, 4)
    _, scores = layer(x, x, return_attention_scores=True)
    real = array(token_ids != 0)
    reading = read({"query_mask": real, "value_mask": real}, KERAS, Sizes(4, 4, B, H))
    assert torch.equal(torch.from_numpy(keras.ops.convert_to_numpy(scores) > 0), reading)


def test_keras_takes_samples_for_heads_beside_a_mask_of_four_axes():
    arguments = {"attention_mask": array(torch.ones(B, H, 4, 6)), "value_mask": array(random_allowed(B, 6))}
    reading = read_mask(arguments, KERAS, Sizes(4, 6, B, H))
    assert reading.lost == (
        "value_mask, the samples: beside an attention_mask of four axes they are taken for heads",
    )
    assert reading.mask.sizes["H"] == B
    check_reading(KERAS, arguments, Sizes(4, 6, B, H))


def test_keras_is_never_written_samples_beside_a_mask_for_each_head():
    mask = causal() & padding([2, 6]) & Mask.from_tensor(random_allowed(1, H, 4, 6))
    written = write_mask(mask, KERAS, Sizes(4, 6, B, H)).arguments
    assert set(written) == {"use_causal_mask", "attention_mask"}
    assert torch.equal(read(written, KERAS, Sizes(4, 6, B, H)), mask.dense(4, 6))
    check_reading(KERAS, written, Sizes(4, 6, B, H))


@pytest.mark.filterwarnings("ignore:Using 'Module.sow:DeprecationWarning")
def test_nnx_wants_a_full_mask_beside_is_causal_when_weights_are_kept():
    library(NNX)
    import jax.numpy as jnp
    from flax import nnx

    layer = nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(0))
    x, keys = jnp.ones((1, 4, 8)), jnp.ones((1, 1, 1, 4), bool)
    layer(x, mask=keys, is_causal=True)
    layer(x, mask=jnp.broadcast_to(keys, (1, 1, 4, 4)), is_causal=True, sow_weights=True)
    with pytest.raises(ValueError, match="broadcast"):
        layer(x, mask=keys, is_causal=True, sow_weights=True)


def test_onnx_pads_a_short_mask_and_does_not_repeat_its_last_axis():
    for columns in (1, 3):
        arguments = {"attn_mask": array(torch.ones(4, columns).bool())}
        wanted = (torch.arange(6) < columns).expand(B, H, 4, 6)
        assert torch.equal(read(arguments, ONNX, Sizes(4, 6, B, H)), wanted)
        assert torch.equal(measured(ONNX, arguments, Sizes(4, 6, B, H)), wanted)


def test_onnx_moves_the_diagonal_of_a_padded_sample():
    arguments = {"is_causal": 1, "nonpad_kv_seqlen": array(torch.tensor([3, 6]))}
    reading = read(arguments, ONNX, Sizes(5, 6, B, H))
    draw = Mask.from_tensor(reading[:1, :1]).draw(5, 6)
    assert draw == ". . . . . .\n. . . . . .\n1 . . . . .\n1 1 . . . .\n1 1 1 . . ."
    assert torch.equal(measured(ONNX, arguments, Sizes(5, 6, B, H)), reading)


def test_the_reference_of_onnx_takes_all_queries_for_the_first_beside_one_row():
    arguments = {"is_causal": 1, "attn_mask": array(torch.ones(1, 1, 1, 6).bool())}
    assert measured(ONNX, arguments, Sizes(4, 6, B, H))[0, 0].sum(-1).tolist() == [1, 1, 1, 1]
    reading = read_mask(arguments, ONNX, Sizes(4, 6, B, H))
    assert torch.equal(reading.mask.dense(4, 6)[0, 0], torch.ones(4, 6).tril().bool())
    assert len(reading.lost) == 1
    assert "takes all queries for the first" in reading.lost[0]
    beside_a_window = arguments | {"left_window_size": 5}
    assert not read_mask(beside_a_window, ONNX, Sizes(4, 6, B, H)).lost
    check_reading(ONNX, beside_a_window, Sizes(4, 6, B, H))


# What is written


@pytest.mark.parametrize(
    ("name", "words", "arguments"),
    [
        (JAX, "causal", {"is_causal"}),
        (JAX, "causal & padding([2, 4])", {"is_causal", "key_value_seq_lengths"}),
        (JAX, "sliding_window(3)", {"is_causal", "local_window_size"}),
        (JAX, 'sliding_window(2, "each side")', {"local_window_size"}),
        (JAX, 'causal("bottom-right")', {"local_window_size"}),
        (JAX, 'causal & padding([2, 4], "left")', {"is_causal", "mask"}),
        (NNX, "causal & padding([2, 4])", {"is_causal", "mask"}),
        (NNX, "sliding_window(2)", {"mask"}),
        (LINEN, "causal", {"mask"}),
        (KERAS, "causal", {"use_causal_mask"}),
        (KERAS, 'causal & padding([2, 4], "left")', {"use_causal_mask", "value_mask"}),
        (KERAS, "sliding_window(2)", {"attention_mask"}),
        (ONNX, "causal", {"is_causal"}),
        (ONNX, "padding([2, 4])", {"nonpad_kv_seqlen"}),
        (ONNX, 'causal("bottom-right")', {"is_causal", "nonpad_kv_seqlen"}),
        (ONNX, "sliding_window(2)", {"is_causal", "left_window_size"}),
        (ONNX, 'sliding_window(1, "each side")', {"left_window_size", "right_window_size"}),
        (ONNX, "causal & padding([2, 4])", {"is_causal", "attn_mask"}),
    ],
)
def test_rules_get_flags_and_lengths(name, words, arguments):
    written = write_mask(read_mask_expression(words), name, Sizes(4, 6, B, H))
    assert not written.lost
    assert {argument for argument, value in written.arguments.items() if value is not False} == arguments


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "mask",
    [
        causal(),
        causal("bottom-right"),
        sliding_window(2),
        sliding_window(2, corner="bottom-right"),
        sliding_window(1, "each side", "bottom-right"),
        padding([1, 4]),
        causal("bottom-right") & padding([4, 4]),
        sliding_window(2) & padding([2, 4], "left"),
    ],
    ids=repr,
)
def test_every_form_is_exact_where_there_are_more_queries_than_keys(name, mask):
    sizes = Sizes(6, 4, B, H)
    allowed = mask.dense(6, 4).expand(B, H, -1, -1)
    q, k, v = problem(sizes)
    wanted, _ = softlookup.scaled_dot_product_attention(q, k, v, allowed, empty_rows="zero")
    some, convention = allowed.any(-1), library(name)
    for form in convention.forms:
        written = write_mask(mask, f"{name}[{form}]", sizes)
        if not written.lost:
            found = convention.run(q, k, v, written.arguments)
            torch.testing.assert_close(found[some], wanted[some], atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(("name", "form"), [(JAX, "flags"), (ONNX, "windows")])
@pytest.mark.parametrize(("q_len", "k_len"), LENGTHS)
def test_no_window_is_written_with_a_negative_number(name, form, q_len, k_len):
    bands = (
        causal,
        lambda corner: sliding_window(2, corner=corner),
        lambda corner: sliding_window(1, "each side", corner),
    )
    for band, corner, length in itertools.product(bands, ("top-left", "bottom-right"), (1, k_len)):
        mask = band(corner) & padding([length, length])
        written = write_mask(mask, f"{name}[{form}]", Sizes(q_len, k_len, B, H)).arguments
        sides = [written[it] for it in ("left_window_size", "right_window_size") if it in written]
        assert all(number >= 0 for number in (*sides, *written.get("local_window_size", ())))


def test_a_window_of_jax_that_ends_before_it_begins_shows_nothing():
    assert not read({"local_window_size": -1}, JAX, Sizes(4, 6, B, H)).any()


def test_a_bias_in_bfloat16_is_read_as_its_numbers():
    library(JAX)
    import jax.numpy as jnp

    bias = jnp.asarray([[0.0, 0.5, -2.0]], jnp.bfloat16)
    assert (
        read_mask({"bias": bias}, JAX, Sizes(1, 3)).lost[0].startswith("the bias on visible keys, -2 to 0.5")
    )


@pytest.mark.parametrize("name", [JAX, ONNX])
def test_lengths_are_written_for_every_sample_of_the_batch(name):
    argument = {JAX: "key_value_seq_lengths", ONNX: "nonpad_kv_seqlen"}[name]
    written = write_mask(padding(3), name, Sizes(4, 6, B, H)).arguments
    assert written[argument].tolist() == [3, 3]
    unknown = write_mask(padding(3), name, Sizes(4, 6)).arguments
    assert argument not in unknown  # a mask for any number of samples
    assert torch.equal(read(unknown, name, Sizes(4, 6)), padding(3).dense(4, 6).expand(B, H, 4, 6))


def test_documents_are_left_to_the_mask():
    mask = documents(torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])) & causal()
    written = write_mask(mask, JAX, Sizes(4, 4, B, H)).arguments
    assert written["is_causal"] is True
    assert torch.equal(
        torch.from_numpy(written["mask"]), documents(torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])).dense(4, 4)
    )


# Refusals


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (JAX, {"mask": array(torch.ones(4, 6).long())}, "not bool.*\n.*True = may look\n.*int64"),
        (JAX, {"mask": array(torch.ones(1, B, H, 4, 6).bool())}, "at most four axes"),
        (JAX, {"key_value_seq_lengths": [[3, 2]]}, r"key_value_seq_lengths.*\n.*integers \[B\]"),
        (JAX, {"key_value_seq_lengths": [3.0, 2.0]}, r"key_value_seq_lengths.*\n.*integers \[B\]"),
        (JAX, {"local_window_size": "two"}, "local_window_size.*\n.*left, right"),
        (JAX, {"local_window_size": (1, 2, 3)}, "local_window_size.*\n.*left, right"),
        (KERAS, {"attention_mask": array(torch.ones(6).bool())}, r"\[T_q, T_k\], \[B, T_q, T_k\]"),
        (KERAS, {"sliding_window": 0}, "at least 1"),
        (KERAS, {"sliding_window": 2.5}, "at least 1"),
        (ONNX, {"left_window_size": -2}, "-1 for no bound"),
        (ONNX, {"nonpad_kv_seqlen": array(torch.tensor([2.0, 3.0]))}, r"integers \[B\]"),
    ],
)
def test_what_the_library_refuses_is_refused_in_words(name, arguments, words):
    sizes = Sizes(4, 6, B, H)
    with pytest.raises(SoftlookupError, match=words):
        read_mask(arguments, name, sizes)
    with pytest.raises(Exception) as refusal:  # noqa: PT011  (each library has its own kind)
        weights_by(library(name), arguments, sizes)
    assert not isinstance(refusal.value, SoftlookupError)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (KERAS, {"value_mask": [True, False]}, r"value_mask.*\n.*\[B, T_k\]"),
        (KERAS, {"query_mask": [True, False]}, r"query_mask.*\n.*\[B, T_q\]"),
        (ONNX, {"past_key": torch.ones(2, 3)}, r"past_key.*\n.*\[B, H_kv, past, d_head\]\n.*\[2, 3\]"),
        (ONNX, {"past_key": 3}, "past_key.*\n.*\n.*int"),
        (ONNX, {"past_key": torch.ones(B, H, 2, 4), "nonpad_kv_seqlen": [2, 2]}, "exclude each other"),
        (
            JAX,
            {"key_value_seq_lengths": [3, 2], "mask": array(torch.ones(3, 1, 1, 6).bool())},
            "do not fit each other",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(name, arguments, words):
    with pytest.raises(SoftlookupError, match=words):
        read_mask(arguments, name, Sizes(4, 6))


def test_sizes_that_a_band_needs_are_asked_for():
    with pytest.raises(SoftlookupError, match="q_len"):
        read_mask({"local_window_size": (3, 1)}, JAX, Sizes(k_len=6))
    with pytest.raises(SoftlookupError, match="query_seq_lengths needs q_len"):
        read_mask({"query_seq_lengths": [3, 1]}, JAX, Sizes(k_len=6))
    with pytest.raises(SoftlookupError, match="nonpad_kv_seqlen needs q_len"):
        read_mask({"is_causal": 1, "nonpad_kv_seqlen": [3, 1]}, ONNX, Sizes(k_len=6))
    with pytest.raises(SoftlookupError, match="one column needs k_len"):
        read_mask({"attn_mask": torch.ones(4, 1).bool()}, ONNX, Sizes(q_len=4))
    assert read_mask({"local_window_size": 3}, JAX, Sizes()).mask == sliding_window(3, "each side")


@pytest.mark.parametrize(
    "symbol", ["a ragged list", "a symbol of Keras", "a tracer of JAX"], ids=lambda it: it.replace(" ", "-")
)
def test_what_has_no_numbers_is_refused_in_words(symbol):
    if symbol == "a ragged list":
        with pytest.raises(SoftlookupError, match="no mask"):
            read_mask([[True], [True, False]], JAX, Sizes(2, 2))
    elif symbol == "a symbol of Keras":
        weights_by(library(KERAS), {}, Sizes(2, 2))  # imports it as run does
        import keras

        with pytest.raises(SoftlookupError, match=r"no mask.*\n.*\n.*KerasTensor"):
            read_mask(keras.Input((3, 3)), KERAS, Sizes(3, 3))
    else:
        library(JAX)
        import jax

        with pytest.raises(SoftlookupError, match=r"no mask.*\n.*\n.*Tracer"):
            jax.jit(lambda mask: read_mask(mask, JAX, Sizes(2, 2)))(jax.numpy.ones((2, 2), bool))
