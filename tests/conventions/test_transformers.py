"""Hugging Face transformers: its own masks are read as its models take them, and its models take ours."""

import functools

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from softlookup import SoftlookupError
from softlookup.conventions import convert, find_convention
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.measuring import problem, weights_by
from softlookup.conventions.spelling import Sizes
from softlookup.conventions.transformers_calls import attend_by, decoder_mask, encoder_mask
from softlookup.masks import Mask, causal, documents, padding, prefix_lm, sliding_window

pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
    pytest.mark.filterwarnings("ignore:_compile flag on create_block_mask"),
]

from transformers import (  # noqa: E402  (after the skip)
    BertConfig,
    BertModel,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
)
from transformers import masking_utils as makers  # noqa: E402

ENCODER, DECODER = "transformers", "transformers decoder"
SDPA, EAGER, FLEX = "transformers sdpa", "transformers eager", "transformers flex"
FUNCTION = "transformers mask_function"
LAYERS = {"sdpa": SDPA, "eager": EAGER, "flex_attention": FLEX}
B, H, T = 2, 3, 5
SIZES = Sizes(T, T, B, H)
RIGHT, LEFT = (
    torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
)
LOWER = torch.ones(T, T).tril().bool()
TWO_DOCUMENTS = torch.tensor([[0, 0, 1, 1, 1]] * B)


def config_for(implementation, kind=LlamaConfig, **more):
    config = kind(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=32,
        pad_token_id=0,
        **more,
    )
    config._attn_implementation = implementation
    return config


def made_by(
    maker, implementation, attention_mask=None, cached=0, kind=LlamaConfig, position_ids=None, **more
):
    """What transformers makes for T new tokens; made without compiling, which changes no function."""
    config = config_for(implementation, kind, **more)
    cache = None
    if cached:
        cache = DynamicCache(config=config)
        past = torch.zeros(B, 2, cached, 16)
        for layer in range(2):
            cache.update(past, past, layer)
    with torch.compiler.set_stance("force_eager"):
        return maker(config, torch.zeros(B, T, 32), attention_mask, cache=cache, position_ids=position_ids)


def dense_of(arguments, name, sizes=SIZES):
    reading = read_mask(arguments, name, sizes)
    assert reading.lost == ()
    return reading.mask.dense(sizes.q_len, sizes.k_len).expand(B, H, -1, -1)


def seen(name, arguments, sizes=SIZES):
    """Whom the real call sees: bool [B, H, T_q, T_k], for masks without rows that see nothing."""
    return weights_by(find_convention(name)[0], arguments, sizes) > 0


# Masks that transformers makes


@pytest.mark.parametrize("implementation", LAYERS)
@pytest.mark.parametrize("keys", [RIGHT, LEFT], ids=["padding right", "padding left"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.float32], ids=str)
def test_causal_with_padding_is_read_in_two_axes_and_in_four(implementation, keys, dtype):
    wanted = (LOWER & keys.bool()[:, None, None]).expand(B, H, T, T)
    made = made_by(makers.create_causal_mask, implementation, keys.to(dtype))
    assert torch.equal(dense_of(made, LAYERS[implementation]), wanted)
    assert torch.equal(dense_of(keys.to(dtype), DECODER), wanted)


@pytest.mark.parametrize("implementation", LAYERS)
@pytest.mark.parametrize("keys", [RIGHT, LEFT], ids=["padding right", "padding left"])
def test_padding_of_an_encoder_is_read_in_two_axes_and_in_four(implementation, keys):
    wanted = keys.bool()[:, None, None].expand(B, H, T, T)
    made = made_by(makers.create_bidirectional_mask, implementation, keys, kind=BertConfig)
    assert torch.equal(dense_of(made, LAYERS[implementation]), wanted)
    assert torch.equal(dense_of(keys, ENCODER), wanted)


@pytest.mark.parametrize("implementation", LAYERS)
def test_a_window_counts_keys_with_the_own_one(implementation):
    made = made_by(
        makers.create_sliding_window_causal_mask, implementation, RIGHT, kind=MistralConfig, sliding_window=2
    )
    wanted = LOWER & ~LOWER.tril(-2) & RIGHT.bool()[:, None, None]
    assert torch.equal(dense_of(made, LAYERS[implementation]), wanted.expand(B, H, T, T))
    assert torch.equal(wanted, (sliding_window(2) & padding([3, 5])).dense(T, T))


@pytest.mark.parametrize("implementation", LAYERS)
def test_position_ids_that_start_again_are_documents(implementation):
    position_ids = torch.tensor([[0, 1, 0, 1, 2], [0, 1, 2, 3, 0]])
    made = made_by(makers.create_causal_mask, implementation, position_ids=position_ids)
    wanted = (documents(torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]])) & causal()).dense(T, T)
    assert torch.equal(dense_of(made, LAYERS[implementation]), wanted.expand(B, H, T, T))


@pytest.mark.parametrize("implementation", LAYERS)
def test_with_a_cache_causal_ends_at_the_last_key(implementation):
    sizes = Sizes(T, T + 3, B, H)
    keys = torch.ones(B, T + 3, dtype=torch.int64)
    keys[0, :2] = 0
    made = made_by(makers.create_causal_mask, implementation, keys, cached=3)
    wanted = torch.ones(T, T + 3).tril(3).bool() & keys.bool()[:, None, None]
    assert torch.equal(dense_of(made, LAYERS[implementation], sizes), wanted.expand(B, H, -1, -1))
    assert torch.equal(dense_of(keys, DECODER, sizes), wanted.expand(B, H, -1, -1))


def test_a_cached_row_too_short_hides_the_newest_keys_so_it_is_refused():
    made = made_by(makers.create_causal_mask, "sdpa", torch.ones(B, T).long(), cached=3)
    assert not made[..., T:].any()
    with pytest.raises(SoftlookupError, match=r"\[2, 8\], past and new tokens together\n.*\[2, 5\]"):
        read_mask(torch.ones(B, T).long(), DECODER, Sizes(T, T + 3, B, H))


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("maker", [makers.create_causal_mask, makers.create_bidirectional_mask])
def test_a_mask_of_four_axes_is_passed_on_as_it_is(implementation, maker):
    custom = write_mask(prefix_lm([2, 3]), LAYERS[implementation], SIZES).arguments["attention_mask"]
    assert made_by(maker, implementation, custom) is custom
    assert torch.equal(
        dense_of(custom, LAYERS[implementation]), prefix_lm([2, 3]).dense(T, T).expand(B, H, -1, -1)
    )


def test_a_block_mask_is_passed_on_as_it_is():
    custom = write_mask(prefix_lm([2, 3]), FLEX, SIZES).arguments["attention_mask"]
    assert made_by(makers.create_causal_mask, "flex_attention", custom) is custom


def test_none_from_a_maker_leaves_it_to_the_model_and_is_refused_for_layers():
    assert made_by(makers.create_causal_mask, "sdpa") is None
    assert torch.equal(dense_of({}, DECODER)[0, 0], LOWER)
    assert dense_of({}, ENCODER).all()
    for name in LAYERS.values():
        with pytest.raises(SoftlookupError, match="it is the model that says who sees whom"):
            read_mask({"attention_mask": None}, name, SIZES)


# Mask functions


@pytest.mark.parametrize(
    ("function", "mask"),
    [
        (makers.causal_mask_function, causal()),
        (makers.sliding_window_causal_mask_function(2), sliding_window(2)),
        (makers.sliding_window_bidirectional_mask_function(2), sliding_window(2, "each side")),
        (makers.padding_mask_function(RIGHT.bool()), padding([3, 5])),
        (makers.and_masks(makers.causal_mask_function, makers.padding_mask_function(RIGHT.bool())),
         causal() & padding([3, 5])),
        (makers.packed_sequence_mask_function(TWO_DOCUMENTS),
         documents(TWO_DOCUMENTS)),
    ],
    ids=["causal", "window", "window both sides", "padding", "joined", "packed"],
)  # fmt: skip
def test_functions_of_masking_utils_are_read(function, mask):
    assert torch.equal(dense_of(function, FUNCTION), mask.dense(T, T).expand(B, H, -1, -1))


def test_offsets_are_added_to_the_indices():
    sizes = Sizes(2, 4, B, H)
    arguments = {"mask_function": makers.causal_mask_function, "q_offset": 2}
    assert torch.equal(dense_of(arguments, FUNCTION, sizes)[0, 0], torch.ones(2, 4).tril(2).bool())
    assert torch.equal(seen(FUNCTION, arguments, sizes), dense_of(arguments, FUNCTION, sizes))
    shifted = {**arguments, "kv_offset": 1}
    assert torch.equal(dense_of(shifted, FUNCTION, sizes)[0, 0], torch.ones(2, 4).tril(1).bool())


def test_what_is_joined_is_joined_to_causal_after_the_cache():
    def first_two(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx < 2

    def not_the_third(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx != 2

    for sizes in (Sizes(4, 4, B, H), Sizes(2, 4, B, H)):
        for arguments in (
            {"or_mask_function": first_two},
            {"and_mask_function": not_the_third},
            {"or_mask_function": first_two, "and_mask_function": not_the_third},
        ):
            found = dense_of(arguments, FUNCTION, sizes)
            assert torch.equal(seen(FUNCTION, arguments, sizes), found)
    assert torch.equal(found[0, 0], torch.tensor([[True, True, False, False], [True, True, False, True]]))


@pytest.mark.parametrize("mask", [prefix_lm([2, 3]), ~causal() | padding(1), documents(TWO_DOCUMENTS)])
def test_a_written_function_is_taken_by_every_maker(mask):
    """Also by the two that begin with causal or with everything."""
    wanted = mask.dense(T, T).expand(B, 1, T, T)
    alone = write_mask(mask, f"{FUNCTION}[mask_function]", SIZES).arguments
    for maker, name in (
        (makers.sdpa_mask, SDPA),
        (makers.eager_mask, EAGER),
        (makers.flex_attention_mask, FLEX),
    ):
        with torch.compiler.set_stance("force_eager"):
            made = maker(B, T, T, **alone)
        assert torch.equal(dense_of(made, name)[:, :1], wanted)
    joined = write_mask(mask, f"{FUNCTION}[or and and]", SIZES).arguments
    for maker in (makers.create_causal_mask, makers.create_bidirectional_mask):
        made = made_by(functools.partial(maker, **joined), "sdpa")
        assert torch.equal(made, wanted)


def test_after_a_cache_the_joined_functions_are_asked_about_later_queries():
    mask, sizes = prefix_lm([2, 7], "bottom-right"), Sizes(T, T + 3, B, H)
    joined = write_mask(mask, f"{FUNCTION}[or and and]", sizes).arguments
    made = made_by(functools.partial(makers.create_causal_mask, **joined), "sdpa", cached=3)
    assert torch.equal(made, mask.dense(T, T + 3))


def test_a_function_that_shows_everything_answers_in_four_axes():
    everything = write_mask(Mask.from_tensor(torch.ones(1, 1).bool()), FUNCTION, SIZES).arguments
    assert makers.sdpa_mask(B, T, T, **everything).all()


def test_sdpa_mask_skips_any_function_unless_told_not_to():
    written = write_mask(sliding_window(2), FUNCTION, SIZES).arguments
    assert makers.sdpa_mask(B, T, T, mask_function=written["mask_function"]) is None
    assert written["allow_is_causal_skip"] is False
    assert makers.sdpa_mask(B, T, T, **written).sum() == B * (1 + 2 * (T - 1))


def test_only_the_first_head_is_asked():
    def by_head(batch_idx, head_idx, q_idx, kv_idx):
        return kv_idx <= q_idx + head_idx

    reading = read_mask(by_head, FUNCTION, SIZES)
    assert reading.lost == ("what it says of other heads than the first: nobody asks",)
    assert torch.equal(reading.mask.dense(T, T)[0, 0], LOWER)
    arguments = {"mask_function": by_head, "allow_is_causal_skip": False}
    assert torch.equal(seen(FUNCTION, arguments), LOWER.expand(B, H, T, T))


def test_heads_that_differ_cannot_be_written_as_a_function():
    allowed = torch.stack([LOWER, LOWER | LOWER.T, LOWER])[None]
    with pytest.raises(SoftlookupError, match="only head 0 is asked"):
        convert(Mask.from_tensor(allowed), target=FUNCTION)
    alike = Mask.from_tensor(LOWER.expand(1, H, T, T))
    assert torch.equal(dense_of(convert(alike, target=FUNCTION), FUNCTION), LOWER.expand(B, H, T, T))


def test_functions_of_two_calls_at_once_are_refused():
    both = {"mask_function": makers.causal_mask_function, "and_mask_function": makers.causal_mask_function}
    with pytest.raises(SoftlookupError, match="no function takes mask_function and and_mask_function"):
        read_mask(both, FUNCTION, SIZES)


def test_a_function_that_fails_is_refused_by_its_own_name():
    with pytest.raises(SoftlookupError, match=rf"{FUNCTION}: the function failed.*\n.*\n.*TypeError"):
        read_mask(lambda batch_idx, head_idx: True, FUNCTION, SIZES)


# What is taken, and as what


@pytest.mark.parametrize("name", [ENCODER, DECODER, SDPA, EAGER, FLEX])
def test_every_tensor_means_what_takes_says(name):
    axes = {"1": 1, "B": B, "H": H, "T_q": 4, "T_k": 6}
    sizes = Sizes(4, 6, B, H)
    q, k, _ = problem(sizes)
    scores = q @ k.mT / 4
    if name == DECODER:
        scores = scores.masked_fill(~torch.ones(4, 6).tril(2).bool(), -torch.inf)
    takes = [(it, shape) for it in find_convention(name)[0].takes for shape in it.shapes]
    for it, shape in takes:
        entries = (
            torch.rand([axes[axis] for axis in shape.split()], generator=torch.Generator().manual_seed(2))
            > 0.4
        )
        entries[..., 0] = True  # every row sees something
        full = entries if entries.dim() == 4 else entries[:, None, None]
        added = (
            torch.zeros(full.shape).masked_fill(~full, -torch.inf)
            if it.meaning == "allowed"
            else full.float()
        )
        dtype = {"bool": torch.bool, "int": torch.int64, "float": torch.float32}[it.dtype]
        found = weights_by(find_convention(name)[0], {it.argument: entries.to(dtype)}, sizes)
        torch.testing.assert_close(found, (scores + added).softmax(-1), msg=f"{it} {shape}")
    assert takes


@pytest.mark.parametrize("name", [ENCODER, DECODER])
@pytest.mark.parametrize("number", [2, -1, -torch.inf, torch.finfo(torch.float32).min, torch.nan, 0.25])
def test_in_two_axes_every_number_but_0_shows_its_key(name, number):
    numbers = torch.where(RIGHT.bool(), torch.tensor(float(number)), 0.0)
    as_ones = {"attention_mask": RIGHT}
    assert torch.equal(dense_of(numbers, name), dense_of(as_ones, name))
    assert torch.equal(seen(name, {"attention_mask": numbers}), seen(name, as_ones))


@pytest.mark.parametrize("name", [ENCODER, DECODER])
@pytest.mark.parametrize("shape", [(T,), (1, T), (B, T, T), (B, 1, T), (B, T + 1), (B, T - 1)], ids=str)
def test_other_shapes_than_two_axes_are_refused_as_the_model_refuses_them(name, shape):
    tensor = torch.ones(shape, dtype=torch.int64)
    tensor[..., 0] = 0  # a mask of ones alone is not looked at
    with pytest.raises(SoftlookupError, match=r"expected: \[2, 5\]"):
        read_mask(tensor, name, SIZES)
    with pytest.raises((IndexError, RuntimeError)):
        seen(name, {"attention_mask": tensor})


@pytest.mark.parametrize("name", [ENCODER, DECODER])
def test_four_axes_are_for_the_layers_and_the_refusal_says_whose(name):
    with pytest.raises(SoftlookupError, match=r"four axes.*\n.*\n.*bool \[2, 1, 5, 5\]\n.*transformers sdpa"):
        read_mask(torch.ones(B, 1, T, T, dtype=torch.bool), name, SIZES)


@pytest.mark.parametrize("name", LAYERS.values())
def test_two_axes_are_taken_for_padding_and_three_by_nobody(name):
    square = torch.zeros(T, T)
    with pytest.raises(
        SoftlookupError, match=r"takes it for padding.*\n.*\n.*\[5, 5\]\n.*tensor\[None, None\]"
    ):
        read_mask(square, name, SIZES)
    with pytest.raises(SoftlookupError, match="attention_mask does not look like one"):
        read_mask(torch.zeros(B, T, T), name, SIZES)


def test_t_by_t_given_to_a_model_of_t_samples_hides_keys_and_not_what_is_later():
    sizes = Sizes(T, T, T, 1)
    weights = weights_by(find_convention(SDPA)[0], {"attention_mask": LOWER.float()}, sizes)
    assert torch.equal(weights > 0, LOWER[:, None, None].expand(T, 1, T, T))


@pytest.mark.parametrize("name", [EAGER, FLEX])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64], ids=str)
def test_bools_and_integers_are_added_hide_nothing_and_are_refused(name, dtype):
    flags = LOWER.expand(B, 1, T, T).to(dtype)
    assert seen(name, {"attention_mask": flags}).all()
    with pytest.raises(SoftlookupError, match="0 and 1 hide nothing there"):
        read_mask(flags, name, SIZES)


def test_integers_in_four_axes_are_refused_by_sdpa_too():
    flags = LOWER.expand(B, 1, T, T).long()
    with pytest.raises(SoftlookupError, match="does not say what its numbers mean"):
        read_mask(flags, SDPA, SIZES)
    with pytest.raises(RuntimeError, match="attn_mask"):
        seen(SDPA, {"attention_mask": flags})


@pytest.mark.parametrize("name", LAYERS.values())
def test_flags_that_are_added_are_read_as_a_bias(name):
    reading = read_mask(LOWER.expand(B, 1, T, T).float(), name, SIZES)
    assert reading.mask.dense(T, T).all()
    assert "0/1 flags" in reading.lost[0]


def test_of_a_score_mask_flex_looks_at_the_first_head():
    by_head = torch.zeros(B, H, T, T)
    by_head[:, 0] = by_head[:, 0].masked_fill(~LOWER, -torch.inf)
    reading = read_mask(by_head, FLEX, SIZES)
    assert reading.lost == ("the heads but the first, which are not looked at",)
    assert torch.equal(reading.mask.dense(T, T).expand(B, H, T, T), LOWER.expand(B, H, T, T))
    assert torch.equal(seen(FLEX, {"attention_mask": by_head}), LOWER.expand(B, H, T, T))


def test_a_block_mask_for_other_lengths_is_refused_by_the_name_of_the_convention():
    made = create_block_mask(makers.causal_mask_function, None, None, 4, 4, device="cpu")
    with pytest.raises(SoftlookupError, match="transformers flex: the BlockMask is for other lengths"):
        read_mask(made, FLEX, SIZES)


# The smallest number of a dtype


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_the_smallest_number_of_every_dtype_is_what_transformers_writes_and_we_read(dtype):
    theirs = makers.eager_mask(B, T, T, attention_mask=RIGHT.bool(), dtype=dtype)
    form = str(dtype).removeprefix("torch.")
    ours = write_mask(causal() & padding([3, 5]), f"{EAGER}[{form}]", SIZES).arguments["attention_mask"]
    assert ours.dtype == dtype
    assert torch.equal(ours, theirs)
    assert ours.min() == torch.finfo(dtype).min
    assert torch.equal(dense_of(ours, EAGER)[:, :1], makers.sdpa_mask(B, T, T, attention_mask=RIGHT.bool()))


def test_a_query_without_keys_gets_the_mean_by_eager_and_zeros_by_sdpa_and_flex():
    allowed = Mask.from_tensor(LOWER & (torch.arange(T) != 2)[:, None])
    weights = {
        name: weights_by(find_convention(name)[0], write_mask(allowed, name, SIZES).arguments, SIZES)[:, :, 2]
        for name in LAYERS.values()
    }
    torch.testing.assert_close(weights[EAGER], torch.full((B, H, T), 1 / T))
    assert not weights[SDPA].any()
    assert not weights[FLEX].any()


def test_a_float16_mask_beside_float32_scores_leaves_a_query_without_keys_as_it_was():
    hidden = write_mask(padding(0), f"{EAGER}[float16]", SIZES).arguments
    q, k, _ = problem(SIZES)
    found = weights_by(find_convention(EAGER)[0], hidden, SIZES)
    torch.testing.assert_close(found, (q @ k.mT / 4).softmax(-1), atol=1e-2, rtol=0)
    assert (found - 1 / T).abs().max() > 0.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_two_masks_added_up_overflow_in_half_precision_and_give_nan(dtype):
    once = write_mask(padding(0), f"{EAGER}[{str(dtype).removeprefix('torch.')}]", SIZES)
    mask = once.arguments["attention_mask"]
    qkv = tuple(it.to(dtype) for it in problem(SIZES))
    assert attend_by("eager", qkv, mask).isfinite().all()
    twice = mask + mask
    assert twice.isneginf().all()
    assert attend_by("eager", qkv, twice).isnan().all()
    assert not read_mask(twice, EAGER, SIZES).mask.dense(T, T).any()


def test_a_large_negative_score_beside_the_smallest_float16_overflows_too():
    smallest = torch.tensor(torch.finfo(torch.float16).min, dtype=torch.float16)
    assert (smallest - 10).isfinite()
    assert (smallest - 20).isneginf()


# What is written


def test_an_encoder_gets_what_a_tokenizer_makes():
    written = convert(padding([3, 5]), target="hf", q_len=T, k_len=T)
    assert list(written) == ["attention_mask"]
    assert written["attention_mask"].dtype == torch.int64
    assert torch.equal(written["attention_mask"], RIGHT)


def test_where_nothing_is_hidden_no_mask_is_written():
    assert convert(padding([T, T]), target=ENCODER, q_len=T, k_len=T) == {}
    assert convert(causal(), target=DECODER, q_len=T, k_len=T) == {}
    assert convert(causal("bottom-right"), target=DECODER, q_len=2, k_len=T) == {}
    assert convert(padding(T), target=DECODER, q_len=1, k_len=T) == {}  # one new token sees all before


def test_a_decoder_is_told_padding_and_only_what_is_not_causal_besides():
    written = convert(causal() & padding([3, 5], "left"), target=DECODER, q_len=T, k_len=T)
    assert list(written) == ["attention_mask"]
    assert torch.equal(written["attention_mask"], LEFT)
    both_ways = convert(padding([3, 5], "left"), target=DECODER, q_len=T, k_len=T)
    assert both_ways.pop("is_causal") is False
    assert torch.equal(both_ways["attention_mask"], LEFT)
    assert torch.equal(
        dense_of({"is_causal": False, **both_ways}, DECODER), dense_of(both_ways["attention_mask"], ENCODER)
    )


@pytest.mark.parametrize(
    ("mask", "name"),
    [
        (padding([3, 5]), ENCODER),
        (causal("bottom-right") & padding([3, 5]), DECODER),
        (padding([3, 5]), DECODER),
    ],
    ids=["encoder", "decoder", "decoder both ways"],
)
@pytest.mark.parametrize("q_len", [T, 3])
def test_a_dense_mask_is_recognised_as_two_axes(mask, name, q_len):
    dense = Mask.from_tensor(mask.dense(q_len, T).expand(B, H, q_len, T))
    by_rule, by_tensor = (convert(it, target=name, q_len=q_len, k_len=T) for it in (mask, dense))
    assert by_rule.keys() == by_tensor.keys()
    assert torch.equal(by_rule["attention_mask"], by_tensor["attention_mask"])


def test_what_two_axes_cannot_say_is_refused_with_what_can():
    for mask, name in ((causal(), ENCODER), (sliding_window(2), DECODER), (prefix_lm(2), DECODER)):
        with pytest.raises(SoftlookupError, match="'transformers sdpa' and 'transformers eager' say it"):
            convert(mask, target=name, q_len=T, k_len=T, batch_size=B)


def test_a_lossy_window_stays_causal_and_a_lossy_prefix_does_not():
    window = convert(sliding_window(2), target=DECODER, q_len=T, k_len=T, lossy=True)
    assert window == {}
    prefix = convert(prefix_lm(2), target=DECODER, q_len=T, k_len=T, lossy=True)
    assert prefix == {"is_causal": False}


def test_more_queries_than_keys_are_no_decoders():
    with pytest.raises(SoftlookupError, match="a decoder's keys are its own tokens"):
        convert(causal(), target=DECODER, q_len=5, k_len=3)
    with pytest.raises(SoftlookupError, match="k_len of at least q_len"):
        weights_by(find_convention(DECODER)[0], {}, Sizes(5, 3, B, H))


def test_two_axes_need_the_number_of_samples():
    with pytest.raises(SoftlookupError, match="needs batch_size"):
        convert(padding(3), target=ENCODER, q_len=T, k_len=T)


def test_samples_that_are_alike_are_views_in_four_axes():
    written = convert(causal(), target=SDPA, q_len=T, k_len=T, batch_size=32)["attention_mask"]
    assert written.shape == (32, 1, T, T)
    assert written.untyped_storage().nbytes() == T * T


# The other attention functions under the same two axes


@pytest.mark.parametrize("implementation", LAYERS)
@pytest.mark.parametrize("q_len", [T, 2])
def test_what_two_axes_say_does_not_depend_on_the_implementation(implementation, q_len):
    sizes = Sizes(q_len, T, B, H)
    mask = causal("bottom-right") & padding([4, 5])
    keys = write_mask(mask, DECODER, sizes).arguments["attention_mask"]
    q, k, v = problem(sizes)
    with torch.compiler.set_stance("force_eager"):
        made = decoder_mask(q, k, keys, implementation)
        across = encoder_mask(q, k, keys, implementation)
    found = attend_by(implementation, (q, k, v), made)[..., :T] > 0
    assert torch.equal(found, mask.dense(q_len, T).expand(B, H, -1, -1))
    found = attend_by(implementation, (q, k, v), across)[..., :T] > 0
    assert torch.equal(found, keys.bool()[:, None, None].expand(B, H, q_len, T))


# Whole models

IMPLEMENTATIONS = ["eager", "sdpa", "flex_attention"]
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 4], [3, 2, 1, 5, 0, 0]])
REAL = TOKENS != 0
N = TOKENS.shape[1]


@functools.cache
def model_of(kind):
    torch.manual_seed(0)
    config = config_for("eager", LlamaConfig if kind is LlamaForCausalLM else BertConfig)
    return kind(config).eval()


def answers(kind, implementation, tokens=TOKENS, **arguments):
    """The logits, or BERT's last states: [B, T, ...]."""
    model = model_of(kind)
    model.config._attn_implementation = implementation
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        return model(tokens, **arguments)[0]


def in_four_axes(mask, implementation):
    return convert(mask, target=LAYERS[implementation], q_len=N, k_len=N, batch_size=2)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", [LlamaForCausalLM, BertModel])
def test_a_model_answers_alike_to_our_two_axes_and_our_four(kind, implementation):
    own = causal() & padding([6, 4]) if kind is LlamaForCausalLM else padding([6, 4])
    name = DECODER if kind is LlamaForCausalLM else ENCODER
    by_tokenizer = answers(kind, "eager", attention_mask=REAL.long())[REAL]
    in_two = answers(kind, implementation, **convert(own, target=name, q_len=N, k_len=N))[REAL]
    in_four = answers(kind, implementation, **in_four_axes(own, implementation))[REAL]
    torch.testing.assert_close(in_two, by_tokenizer, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(in_four, by_tokenizer, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_padding_changes_nothing_for_real_tokens_of_a_model(implementation):
    written = convert(padding([6, 4]), target=ENCODER, q_len=N, k_len=N)
    padded = answers(BertModel, implementation, **written)[1, :4]
    alone = answers(BertModel, implementation, TOKENS[1:, :4])[0]
    torch.testing.assert_close(padded, alone, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(answers(BertModel, implementation)[1, :4], alone, atol=1e-3)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_decoder_that_is_told_so_looks_both_ways(implementation):
    written = convert(padding([6, 4]), target=DECODER, q_len=N, k_len=N)
    assert written["is_causal"] is False
    both_ways = answers(LlamaForCausalLM, implementation, **written)
    in_four = answers(LlamaForCausalLM, implementation, **in_four_axes(padding([6, 4]), implementation))
    torch.testing.assert_close(both_ways[REAL], in_four[REAL], atol=1e-5, rtol=1e-5)
    one_way = answers(LlamaForCausalLM, implementation, attention_mask=REAL.long())
    assert not torch.allclose(both_ways[REAL], one_way[REAL], atol=1e-3)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_model_continues_from_its_cache_as_from_the_whole(implementation):
    """Four axes from causal at the last key, two new tokens after four."""
    whole = answers(LlamaForCausalLM, implementation)[:, 4:]
    model, cache = model_of(LlamaForCausalLM), DynamicCache()
    written = convert(causal("bottom-right"), target=LAYERS[implementation], q_len=2, k_len=N, batch_size=2)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        model(TOKENS[:, :4], cache=cache, use_cache=True)
        continued = model(TOKENS[:, 4:], cache=cache, use_cache=True, **written)[0]
    torch.testing.assert_close(continued, whole, atol=1e-5, rtol=1e-5)
