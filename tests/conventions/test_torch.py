"""PyTorch's attention modules and FlexAttention: what each takes and refuses, and what their pages say."""

import contextlib
import math

import pytest
import torch
from torch import nn

from softlookup import SoftlookupError
from softlookup.conventions import convert, find_convention
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.measuring import weights_by
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask, causal, documents, padding, sliding_window

SDPA = "F.scaled_dot_product_attention"
MHA = "nn.MultiheadAttention"
MODULES = [
    MHA,
    "nn.TransformerEncoder",
    "nn.TransformerEncoderLayer",
    "nn.TransformerDecoder",
    "nn.TransformerDecoder memory",
]
TO_ITSELF = [name for name in MODULES if name not in (MHA, "nn.TransformerDecoder memory")]
B, H, T = 2, 3, 4
SIZES = Sizes(T, T, B, H)
ABOVE = torch.ones(T, T, dtype=torch.bool).triu(1)  # what causal hides


def names_of(module):
    """The names of a module's attention mask and key mask."""
    takes = find_convention(module)[0].takes
    return takes[0].argument, takes[2].argument


def hint_of(module):
    prefix = names_of(module)[1].removesuffix("key_padding_mask").removeprefix("src_")
    return f"{prefix}is_causal"


def seen(name, arguments, sizes=SIZES):
    """What the real call looks at."""
    return weights_by(find_convention(name)[0], arguments, sizes) > 1e-6


def as_read(name, arguments, sizes=SIZES):
    mask = read_mask(arguments, name, sizes).mask
    return mask.dense(sizes.q_len, sizes.k_len).expand(B, H, -1, -1)


def one_key_hidden_by_head():
    """bool [B, H, T, T], True = may look; sample b hides key b + 1 or 0 in head h, and no two are alike."""
    allowed = torch.ones(B, H, T, T, dtype=torch.bool)
    for b in range(B):
        for h in range(H):
            allowed[b, h, :, (b + h) % T] = False
            allowed[b, h, b, (b + h + 1) % T] = False
    return allowed


@contextlib.contextmanager
def inference_path(enabled):
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


# Three axes


@pytest.mark.parametrize("module", MODULES)
def test_head_h_of_sample_b_is_entry_b_times_heads_plus_h(module):
    allowed, (attn_mask, _) = one_key_hidden_by_head(), names_of(module)
    by_hand = torch.stack([~allowed[b, h] for b in range(B) for h in range(H)])
    assert torch.equal(as_read(module, {attn_mask: by_hand}), allowed)
    assert torch.equal(write_mask(Mask.from_tensor(allowed), module, SIZES).arguments[attn_mask], by_hand)
    assert torch.equal(seen(module, {attn_mask: by_hand}), allowed)


def test_the_swapped_order_is_another_mask_for_reading_and_for_the_module():
    allowed = one_key_hidden_by_head()
    swapped = torch.stack([~allowed[b, h] for h in range(H) for b in range(B)])
    assert not torch.equal(as_read(MHA, {"attn_mask": swapped}), allowed)
    assert torch.equal(as_read(MHA, {"attn_mask": swapped}), seen(MHA, {"attn_mask": swapped}))


def test_three_axes_need_the_number_of_heads_or_of_samples():
    blocked = ~one_key_hidden_by_head().flatten(0, 1)
    with pytest.raises(SoftlookupError, match=r"\[B\*H, T_q, T_k\] needs num_heads"):
        read_mask({"attn_mask": blocked}, MHA, Sizes())
    by_heads = read_mask({"attn_mask": blocked}, MHA, Sizes(num_heads=H)).mask
    by_samples = read_mask({"attn_mask": blocked}, MHA, Sizes(batch_size=B)).mask
    assert torch.equal(by_heads.dense(T, T), one_key_hidden_by_head())
    assert torch.equal(by_samples.dense(T, T), one_key_hidden_by_head())


def test_three_axes_of_a_single_sample_and_head_need_no_number():
    assert read_mask({"attn_mask": ABOVE[None]}, MHA, Sizes()).mask.dense(T, T)[0, 0].equal(~ABOVE)


# Both masks


@pytest.mark.parametrize("module", MODULES)
def test_a_key_is_hidden_where_either_mask_hides_it(module):
    attn_mask, key_mask = names_of(module)
    keys = torch.tensor([[False, False, True, True], [False, True, False, False]])
    arguments = {attn_mask: ABOVE, key_mask: keys}
    either = ~(ABOVE | keys[:, None, None])
    assert torch.equal(as_read(module, arguments), either.expand(B, H, T, T))
    assert torch.equal(seen(module, arguments), either.expand(B, H, T, T))


@pytest.mark.parametrize("module", MODULES)
def test_masks_of_two_kinds_are_read_as_the_module_takes_them(module):
    attn_mask, key_mask = names_of(module)
    added = torch.zeros(T, T).masked_fill(ABOVE, -math.inf)
    arguments = {attn_mask: added, key_mask: torch.tensor([[False, False, False, True]] * B)}
    with pytest.warns(UserWarning, match="mismatched"):
        found = seen(module, arguments)
    assert torch.equal(as_read(module, arguments), found)


def test_both_masks_stay_two_when_written_again():
    keys = torch.tensor([[False, False, True, True], [False, True, False, False]])
    arguments = {"attn_mask": ABOVE, "key_padding_mask": keys}
    written = convert(arguments, source=MHA, target="nn.TransformerEncoder", num_heads=H)
    assert torch.equal(written["mask"], ABOVE)
    assert torch.equal(written["src_key_padding_mask"], keys)


# What is taken and what is refused


@pytest.mark.parametrize("name", [SDPA, *MODULES])
def test_every_tensor_means_what_takes_says(name):
    shapes = {"T_q": T, "T_k": T, "B": B, "H": H, "B*H": B * H}
    hidden = torch.tensor([False, True, False, False])  # of the keys
    for it in find_convention(name)[0].takes:
        for shape in it.shapes:
            if shape == "T_k":
                continue  # of a single sample, which run does not make: see the next test
            flags = hidden.expand([shapes[axis] for axis in shape.split()])
            value = flags if it.meaning == "blocked" else ~flags
            if it.dtype == "float":
                value = torch.zeros(flags.shape).masked_fill(flags, -math.inf)
            expected = ~hidden.expand(B, H, T, T)
            assert torch.equal(seen(name, {it.argument: value}), expected), it
            assert torch.equal(as_read(name, {it.argument: value}), expected), it


def test_a_single_sample_without_a_batch_axis_takes_one_row_of_keys():
    tokens, hidden = torch.randn(T, 6), torch.tensor([False, True, False, False])
    _, weights = nn.MultiheadAttention(6, H)(tokens, tokens, tokens, key_padding_mask=hidden)
    assert torch.equal(weights == 0, hidden.expand(T, T))
    read = read_mask({"key_padding_mask": hidden}, MHA, Sizes(T, T, 1, H)).mask.dense(T, T)
    assert torch.equal(read[0, 0], weights > 0)


ATTN_SHAPES = [(T, T), (1, T), (T, 1), (1, T, T), (B, T, T), (H, T, T), (B * H, T, T), (B, H, T, T), (T,)]
KEY_SHAPES = [(B, T), (1, T), (T,), (T, B), (B, 1), (B, 1, T), (B, 1, 1, T)]


def is_refused(call):
    try:
        call()
    except (SoftlookupError, RuntimeError, AssertionError):
        return True
    return False


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("kind", [0, 1], ids=["attention mask", "key mask"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64, torch.uint8], ids=str)
def test_reading_refuses_what_the_module_refuses(module, kind, dtype):
    for shape in (ATTN_SHAPES, KEY_SHAPES)[kind]:
        arguments = {names_of(module)[kind]: torch.zeros(shape, dtype=dtype)}
        by_module = is_refused(lambda arguments=arguments: seen(module, arguments))
        by_reading = is_refused(lambda arguments=arguments: as_read(module, arguments))
        assert by_reading == by_module, (shape, dtype)


def test_a_refusal_says_the_shapes_that_fit():
    with pytest.raises(SoftlookupError, match=r"attn_mask .*\n.*\[4, 4\] or \[6, 4, 4\]\n.*bool \[1, 4\]"):
        read_mask({"attn_mask": torch.zeros(1, T).bool()}, MHA, SIZES)
    with pytest.raises(SoftlookupError, match=r"key_padding_mask .*\n.*\[2, 4\]\n.*bool \[1, 4\]"):
        read_mask({"key_padding_mask": torch.zeros(1, T).bool()}, MHA, SIZES)
    with pytest.raises(SoftlookupError, match=r"bool \(True = hidden\) or float"):
        read_mask({"attn_mask": torch.zeros(T, T).long()}, MHA, SIZES)


def test_the_number_of_random_numbers_drawn_is_none():
    before = torch.get_rng_state()
    for module in MODULES:
        weights_by(find_convention(module)[0], {}, SIZES)
    assert torch.equal(torch.get_rng_state(), before)  # weights_by has a generator of its own


# The hint


@pytest.mark.parametrize("module", MODULES)
def test_the_mask_that_torch_makes_is_read_as_causal_with_and_without_the_hint(module):
    made = nn.Transformer.generate_square_subsequent_mask(T)
    attn_mask, _ = names_of(module)
    for arguments in ({attn_mask: made}, {attn_mask: made, hint_of(module): True}):
        reading = read_mask(arguments, module, Sizes(T, T))
        assert reading.lost == ()
        assert reading.mask.dense(T, T)[0, 0].equal(~ABOVE)


def test_a_mask_with_the_hint_becomes_the_flag_of_another_call():
    arguments = {"attn_mask": ABOVE, "is_causal": True}
    assert convert(arguments, source=MHA, target=SDPA, q_len=T, k_len=T) == {"is_causal": True}


@pytest.mark.parametrize("module", MODULES)
def test_the_hint_alone_is_refused(module):
    with pytest.raises(SoftlookupError, match="hides nothing by itself"):
        read_mask({hint_of(module): True}, module, SIZES)
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        seen(module, {hint_of(module): True})


@pytest.mark.parametrize("module", MODULES)
def test_a_hint_that_contradicts_the_mask_is_refused(module):
    with pytest.raises(SoftlookupError, match="not causal"):
        read_mask({names_of(module)[0]: ABOVE.T, hint_of(module): True}, module, SIZES)


def test_a_wrong_hint_is_followed_on_one_path_and_not_on_the_other():
    one_hidden = torch.zeros(T, T, dtype=torch.bool)
    one_hidden[3, 0] = True
    module, x, y = (
        nn.MultiheadAttention(6, H, batch_first=True).eval(),
        torch.randn(B, T, 6),
        torch.randn(B, T, 6),
    )
    for need_weights, followed in ((True, one_hidden), (False, ABOVE)):
        hinted, _ = module(x, y, y, attn_mask=one_hidden, is_causal=True, need_weights=need_weights)
        alone, _ = module(x, y, y, attn_mask=followed, need_weights=need_weights)
        torch.testing.assert_close(hinted, alone)


@pytest.mark.parametrize("module", [MHA, *TO_ITSELF])
def test_in_inference_the_hint_alone_hides_nothing(module):
    call, x = real_self_attention(module), torch.randn(B, T, 8)
    with inference_path(True):
        torch.testing.assert_close(call(x, {hint_of(module): True}), call(x, {}))


def test_the_hint_hides_the_key_that_add_zero_attn_adds():
    module = nn.MultiheadAttention(6, H, batch_first=True, add_zero_attn=True).eval()
    x, y = torch.randn(B, T, 6), torch.randn(B, T, 6)
    masked, _ = module(x, y, y, attn_mask=ABOVE, need_weights=False)
    hinted, _ = module(x, y, y, attn_mask=ABOVE, is_causal=True, need_weights=False)
    assert not torch.allclose(masked, hinted)


# What is written


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    ("mask", "shapes"),
    [
        (padding([2, 4]), [None, (B, T)]),
        (causal(), [(T, T), None]),
        (causal() & padding([2, 4]), [(T, T), (B, T)]),
        (sliding_window(2) & padding([2, 4], "left"), [(T, T), (B, T)]),
        (documents(torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])), [(B * H, T, T), None]),
        (causal() & padding(3), [(T, T), None]),
    ],
    ids=["padding", "causal", "causal and padding", "window and padding", "documents", "the same padding"],
)
def test_a_rule_is_written_with_the_smallest_tensors(module, mask, shapes):
    written = write_mask(mask, module, SIZES)
    assert not written.lost
    wanted = {name: shape for name, shape in zip(names_of(module), shapes, strict=True) if shape}
    assert {name: tuple(it.shape) for name, it in written.arguments.items()} == wanted


def test_a_mask_that_shows_everything_is_no_argument():
    assert convert(torch.ones(1, 1).bool(), target=MHA, q_len=T, k_len=T) == {}


def test_padding_of_nobody_knows_how_many_samples_goes_into_the_other_mask():
    written = write_mask(padding(3), MHA, Sizes(T, T))
    assert written.arguments["attn_mask"].tolist() == [[False, False, False, True]] * T


def test_what_differs_by_head_needs_the_number_of_samples():
    mask = Mask.from_tensor(one_key_hidden_by_head()[:1])
    with pytest.raises(SoftlookupError, match="batch_size"):
        convert(mask, target=MHA)
    assert convert(mask, target=MHA, batch_size=B)["attn_mask"].shape == (B * H, T, T)


def test_forms_that_cannot_say_it_show_more():
    mask = causal() & padding([2, 4])
    for form, kept in (("keys", padding([2, 4])), ("2-D", causal())):
        with pytest.raises(SoftlookupError, match="lost: "):
            convert(mask, target=f"{MHA}[{form}]", q_len=T, k_len=T)
        arguments = convert(mask, target=f"{MHA}[{form}]", q_len=T, k_len=T, lossy=True)
        assert as_read(MHA, arguments).equal(kept.dense(T, T).expand(B, H, T, T))


@pytest.mark.parametrize("module", TO_ITSELF)
def test_tokens_that_attend_to_themselves_are_as_many_queries_as_keys(module):
    with pytest.raises(SoftlookupError, match="queries other than the keys"):
        convert(causal(), target=module, q_len=3, k_len=T)
    with pytest.raises(SoftlookupError, match="as many queries as keys"):
        seen(module, {}, Sizes(3, T, B, H))


# PyTorch's inference path, which run does not take


def real_self_attention(module):
    """A module with weights of its own, as a function of tokens that takes the convention's arguments."""
    if module == MHA:
        mha = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        return lambda x, arguments: mha(x, x, x, need_weights=False, **arguments)[0]
    if module == "nn.TransformerDecoder":
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1).eval()
        return lambda x, arguments: decoder(x, x, **arguments)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    encoder = nn.TransformerEncoder(layer, 1).eval() if module == "nn.TransformerEncoder" else layer
    return lambda x, arguments: encoder(x, **arguments)


@pytest.mark.parametrize("module", [MHA, *TO_ITSELF])
@pytest.mark.parametrize("form", ["keys", "2-D", "2-D and keys", "3-D"])
def test_the_inference_path_sees_the_same(module, form):
    torch.manual_seed(0)
    call, x, sizes = real_self_attention(module), torch.randn(B, T, 8), Sizes(T, T, B, 2)
    mask = padding([2, 4]) if form == "keys" else causal() if form == "2-D" else causal() & padding([2, 4])
    arguments = write_mask(mask, f"{module}[{form}]", sizes).arguments
    with inference_path(False):
        slow = call(x, arguments)
    with inference_path(True):
        fast, unmasked = call(x, arguments), call(x, {})
    real = padding([2, 4]).dense(T, T)[:, 0, 0]  # nested tensors return 0 for queries that are padding
    torch.testing.assert_close(fast[real], slow[real])
    assert not torch.allclose(fast[real], unmasked[real])


def test_an_encoder_returns_zeros_for_padded_queries_in_inference():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x, keys = torch.randn(B, T, 8), torch.tensor([[False] * 2 + [True] * 2, [False] * 4])
    with inference_path(True):
        nested = nn.TransformerEncoder(layer, 1).eval()(x, src_key_padding_mask=keys)
        plain = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()(
            x, src_key_padding_mask=keys
        )
    assert not nested[keys].any()
    assert plain[keys].all()


@pytest.mark.parametrize("kind", [0, 1], ids=["attention mask", "key mask"])
@pytest.mark.parametrize("module", ["nn.TransformerEncoder", "nn.TransformerEncoderLayer"])
def test_in_inference_an_encoder_hides_every_number_but_0(module, kind):
    torch.manual_seed(0)
    call, x, name = real_self_attention(module), torch.randn(B, T, 8), names_of(module)[kind]
    bias = torch.zeros((T, T), dtype=torch.float32) if kind == 0 else torch.zeros(B, T)
    bias[:, 1] = 0.5
    with inference_path(True):
        added, hidden = call(x, {name: bias}), call(x, {name: bias != 0})
        real = slice(None) if kind == 0 else 0  # the padded row of a nested tensor is 0 in both
        torch.testing.assert_close(added[:, real], hidden[:, real])
    reading = read_mask({name: bias}, module, Sizes(T, T, B, 2))
    assert reading.lost[-1] == "in inference, with batch_first=True, every number but 0 hides"
    assert reading.mask.dense(T, T).all()


def test_a_bias_of_the_other_modules_is_lost_as_a_bias():
    for module in (MHA, "nn.TransformerDecoder", "nn.TransformerDecoder memory"):
        (lost,) = read_mask({names_of(module)[0]: torch.full((T, T), 0.5)}, module, SIZES).lost
        assert lost.startswith("the bias on visible keys, 0 to 0.5")


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("to_itself", [True, False])
def test_a_query_without_keys_gets_what_the_page_says(need_weights, to_itself):
    module, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(B, T, 8)
    y = x if to_itself else torch.randn(B, T, 8)
    blocked = torch.zeros(T, T, dtype=torch.bool)
    blocked[2] = True
    with inference_path(True):
        row = module(x, y, y, attn_mask=blocked, need_weights=need_weights)[0][:, 2]
    nan = need_weights or to_itself
    assert row.isnan().all() if nan else (row == module.out_proj.bias).all()


@pytest.mark.parametrize("module", TO_ITSELF)
def test_a_token_without_keys_gets_nan_in_inference(module):
    call, x = real_self_attention(module), torch.randn(B, T, 8)
    blocked = torch.zeros(T, T, dtype=torch.bool)
    blocked[2] = True
    with inference_path(True):
        assert call(x, {names_of(module)[0]: blocked})[:, 2].isnan().all()


@pytest.mark.parametrize("module", MODULES)
def test_a_query_without_keys_gets_zeros_on_the_other_path(module):
    blocked = torch.zeros(T, T, dtype=torch.bool)
    blocked[2] = True
    weights = weights_by(find_convention(module)[0], {names_of(module)[0]: blocked}, SIZES)
    assert not weights[:, :, 2].any()
