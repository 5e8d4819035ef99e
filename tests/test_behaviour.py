"""Modules whose projections are not found are judged by what moves what, under their own weights."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

import softlookup
from softlookup import Contract, Diagnosis
from softlookup.checker.behaviour import doubt_about
from softlookup.checker.sketching import sketch_of

WIDTH, H = 24, 3
TESTS = Path(__file__).parent


class Directions(nn.Module):
    """Attention whose weights are computed from directions and lengths: no weight is a projection."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.out = (weight_norm(nn.Linear(WIDTH, WIDTH)) for _ in range(4))
        self.dropout = nn.Dropout(0.25)

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else scores.masked_fill(mask[:, None, None], float("-inf"))

    def weigh(self, scores: Tensor) -> Tensor:
        return self.dropout(scores.softmax(dim=-1))

    def attend(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (f(x).unflatten(-1, (H, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        return self.out((self.weigh(self.hide(scores, mask)) @ v).transpose(1, 2).flatten(2))


class Plain(Directions):
    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)


class Padded(Directions):
    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """key_padding_mask: bool (batch, length), True = padding"""
        return self.attend(x, key_padding_mask)


class Causal(Directions):
    """Causal attention: no token sees a later one."""

    first_hidden = 1

    def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(self.first_hidden)
        return super().hide(scores.masked_fill(later, float("-inf")), mask)

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)


def checked(module: nn.Module, contract: Contract | None = None) -> Diagnosis:
    return softlookup.check(module.eval(), contract)


def test_a_module_without_projections_is_clean_and_a_note_says_what_was_not_checked() -> None:
    diagnosis = checked(Plain())
    assert (diagnosis.kind, diagnosis.verdict) == ("module", "clean")
    (note,) = [note for note in diagnosis.notes if note.code == "SL001"]
    assert "not the lookup inside" in note.summary
    assert "q_proj" in note.fix
    assert "Contract" in note.fix


def test_the_measured_contract_says_how_it_was_called() -> None:
    contract = checked(Padded()).contract
    assert (contract.layout, contract.mask, contract.mask_shape) == ("B T d", "blocked", "B T_k")
    assert contract.causal == "none"
    assert contract.arguments == "x, mask=key_padding_mask"


def test_samples_that_see_each_other_are_named() -> None:
    class Normed(Plain):
        def weigh(self, scores: Tensor) -> Tensor:
            return (scores - scores.mean(dim=0)).softmax(dim=-1)

    assert checked(Normed()).named() == ["batch-neighbours-leak"]


def test_a_layout_that_nobody_stated_is_measured() -> None:
    class SequenceFirst(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.attend(x.transpose(0, 1)).transpose(0, 1)

    diagnosis = checked(SequenceFirst())
    assert (diagnosis.named(), diagnosis.contract.layout) == ([], "T B d")


def test_a_layout_that_was_declared_and_does_not_hold_is_named() -> None:
    class SequenceFirst(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.attend(x.transpose(0, 1)).transpose(0, 1)

    assert checked(SequenceFirst(), Contract(layout="B T d")).named() == ["batch-sequence-swapped"]


def test_a_causal_module_is_clean_and_its_causality_is_measured() -> None:
    diagnosis = checked(Causal())
    assert (diagnosis.named(), diagnosis.contract.causal) == ([], "built-in")


def test_a_later_token_that_moves_an_earlier_row_is_named_where_causality_was_promised() -> None:
    assert checked(Plain(), Contract(causal="built-in")).named() == ["future-visible"]


def test_a_diagonal_that_is_off_by_one_is_named() -> None:
    class Late(Causal):
        first_hidden = 2

    assert checked(Late()).named() == ["next-token-visible"]


def test_a_mask_that_changes_nothing_is_named() -> None:
    class Deaf(Padded):
        def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
            return scores

    assert checked(Deaf()).named() == ["mask-ignored"]


def test_a_mask_that_hides_what_it_should_show_is_named_with_the_line_that_reads_it() -> None:
    class Turned(Padded):
        def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
            return super().hide(scores, None if mask is None else ~mask)

    diagnosis = checked(Turned())
    assert diagnosis.named() == ["mask-inverted"]
    line = diagnosis.findings[0].line
    assert line is not None
    assert "~mask" in Path(__file__).read_text().splitlines()[line - 1]


def test_a_mask_whose_meaning_nobody_states_is_left_alone() -> None:
    class Quiet(Directions):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            return self.attend(x, None if mask is None else ~mask)

    diagnosis = checked(Quiet())
    assert (diagnosis.named(), diagnosis.contract.mask) == ([], "none")


def test_a_mask_of_the_first_sample_that_serves_all_is_named() -> None:
    class First(Padded):
        def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
            return super().hide(scores, None if mask is None else mask[:1])

    assert checked(First(), Contract(mask_shape="B T_k")).named() == ["mask-shared-across-batch"]


def test_padding_that_changes_real_tokens_is_named() -> None:
    class Counting(Padded):
        def hide(self, scores: Tensor, mask: Tensor | None) -> Tensor:
            return super().hide(scores * scores.shape[-1] ** 0.5, mask)

    assert checked(Counting()).named() == ["padding-changes-output"]


def test_an_input_that_is_changed_in_place_is_named() -> None:
    class Greedy(Plain):
        def forward(self, x: Tensor) -> Tensor:
            if not x.requires_grad:
                x *= 0.5
            return self.attend(x)

    assert checked(Greedy()).named()[0] == "caller-mask-changed"


def test_dropout_in_evaluation_is_named_with_its_line() -> None:
    class Noisy(Plain):
        def weigh(self, scores: Tensor) -> Tensor:
            return nn.functional.dropout(scores.softmax(dim=-1), 0.5)

    diagnosis = checked(Noisy())
    assert diagnosis.named() == ["dropout-in-eval"]
    line = diagnosis.findings[0].line
    assert line is not None
    assert "functional.dropout" in Path(__file__).read_text().splitlines()[line - 1]


def test_random_numbers_that_are_no_dropout_are_a_note() -> None:
    class Slots(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.attend(x + 0.1 * torch.randn(x.shape[0], 1, WIDTH))

    diagnosis = checked(Slots())
    assert diagnosis.named() == []
    assert "dropout-in-eval" in [note.name for note in diagnosis.notes]


def test_a_gradient_that_does_not_reach_the_input_is_named() -> None:
    class Cut(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.attend(x.detach())

    assert checked(Cut()).named() == ["gradient-wrong"]


class _Smeared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return gradient + gradient.sum(dim=0)


def test_a_gradient_that_flows_where_no_value_does_is_named() -> None:
    class Smearing(Plain):
        def forward(self, x: Tensor) -> Tensor:
            return self.attend(_Smeared.apply(x))  # type: ignore[no-untyped-call]

    assert checked(Smearing()).named() == ["gradient-wrong"]


def test_training_without_dropout_that_computes_something_else_is_named() -> None:
    class Two(Plain):
        def weigh(self, scores: Tensor) -> Tensor:
            return super().weigh(scores if self.training else scores * 1.5)

    assert checked(Two()).named() == ["path-mismatch"]


def test_a_projection_that_begins_as_zeros_hides_no_leak() -> None:
    class Zero(Plain):
        def __init__(self) -> None:
            super().__init__()
            self.out = nn.Linear(WIDTH, WIDTH)
            nn.init.zeros_(self.out.weight)

        def weigh(self, scores: Tensor) -> Tensor:
            return (scores - scores.mean(dim=0)).softmax(dim=-1)

    module = Zero()
    assert checked(module).named() == ["batch-neighbours-leak"]
    assert not module.out.weight.any()


def test_positions_are_given_where_they_turn_out_to_be_needed() -> None:
    class Turning(Directions):
        def forward(self, x: Tensor, position_embeddings: tuple[Tensor, Tensor] | None = None) -> Tensor:
            cos, sin = position_embeddings  # type: ignore[misc]
            return self.attend(x * cos.mean() + sin.mean())

    assert checked(Turning()).verdict == "clean"


def test_a_memory_that_has_to_be_given_is_given() -> None:
    class Cross(Directions):
        def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
            """x: [B, T, d], context: [B, T_k, d] what is looked at"""
            return self.attend(x + context.mean(dim=1, keepdim=True))  # type: ignore[union-attr]

    diagnosis = checked(Cross())
    assert (diagnosis.verdict, diagnosis.contract.arguments) == ("clean", "x=context, x")


def test_words_about_the_whole_module_do_not_say_what_each_of_several_masks_means() -> None:
    class Several(Directions):
        """Attention. Where a mask is True, that token is padding and hidden."""

        def forward(self, x: Tensor, mask: Tensor | None = None, value_mask: Tensor | None = None) -> Tensor:
            return self.attend(x, None if mask is None else ~mask)

    assert checked(Several()).named() == []


def test_an_argument_that_is_not_understood_is_named_with_a_wrapper() -> None:
    class Strange(Directions):
        def forward(self, x: Tensor, routing_plan: object, *, zeal: object) -> Tensor:
            return self.attend(x) * zeal.strength  # type: ignore[attr-defined, no-any-return]

    diagnosis = checked(Strange())
    assert diagnosis.verdict == "not-callable"
    (finding,) = diagnosis.findings
    assert "zeal" in finding.summary
    assert "class Checked(Strange)" in finding.fix
    assert "zeal=..." in finding.fix


def test_a_module_that_raises_says_what_stopped_the_likeliest_guess() -> None:
    class Broken(Directions):
        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("the moon is in the wrong phase")

    (finding,) = checked(Broken()).findings
    assert "the moon is in the wrong phase" in finding.summary
    assert f"width {WIDTH}" in finding.summary


def test_weights_without_a_role_are_a_doubt_and_known_ones_are_none() -> None:
    class Known(nn.Module):
        def __init__(self, extra: bool) -> None:
            super().__init__()
            self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(8, 8) for _ in range(4))
            if extra:
                self.latents = nn.Parameter(torch.randn(4, 8))

    from softlookup.checker.find_wiring import guess_wirings

    plain, more = (sketch_of(Known(extra)) for extra in (False, True))
    assert doubt_about(plain, guess_wirings(plain, "self")[0]) == ""
    assert "latents" in doubt_about(more, guess_wirings(more, "self")[0])


@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_layer_of_torch_is_clean(batch_first: bool) -> None:
    torch.manual_seed(0)
    diagnosis = checked(nn.TransformerEncoderLayer(WIDTH, H, 32, batch_first=batch_first))
    assert diagnosis.named() == []
    assert diagnosis.contract.layout == ("B T d" if batch_first else "T B d")


def test_a_decoder_layer_of_torch_is_clean() -> None:
    torch.manual_seed(0)
    assert checked(nn.TransformerDecoderLayer(WIDTH, H, 32, batch_first=True)).named() == []


@pytest.mark.parametrize(
    ("file", "name", "arguments"),
    [
        ("m30_learned_latents", "LatentCrossAttention", (5, WIDTH, H)),
        ("m42_spectral_norm", "SpectralCrossAttention", (WIDTH, H)),
        ("m53_windows_of_an_image", "WindowAttention", (WIDTH, 3, H)),
        ("m56_attention_pooling", "AttentionPooling", (WIDTH, H)),
        ("m58_channels_first_image_to_text", "ImageTextCrossAttention", (WIDTH, 20, H)),
        ("m61_cached_slots", "BufferedCacheAttention", (WIDTH, H)),
    ],
)
def test_right_modules_that_are_more_than_a_lookup_are_clean(
    file: str, name: str, arguments: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    diagnosis = checked(getattr(_loaded(TESTS / "right_modules" / f"{file}.py"), name)(*arguments))
    assert diagnosis.named() == []


@pytest.mark.parametrize(
    ("file", "name", "arguments", "expected", "words"),
    [
        ("b145_one_small_layer_for_all_heads", "MultiHeadAttention", (WIDTH, H), "unrecognised", "class"),
        ("b173_regions_marked_on_the_wrong_axis", "ShiftedWindowAttention", (WIDTH, H), "window-ignored",
         "# bug"),
        ("b199_fast_path_blanks_padding", "TextEncoder", (WIDTH, 4), "path-mismatch", "self.encoder(src"),
        ("b200_output_shorter_than_input", "PackedSelfAttention", (WIDTH, H), "path-mismatch", "# bug"),
    ],
)  # fmt: skip
def test_public_reports_whose_projections_do_not_show_the_bug_are_named(
    file: str, name: str, arguments: tuple[int, ...], expected: str, words: str
) -> None:
    """``words``: what is written on the line that the finding points at."""
    torch.manual_seed(0)
    path = TESTS / "wild" / f"{file}.py"
    diagnosis = checked(getattr(_loaded(path), name)(*arguments))
    assert diagnosis.named() == [expected]
    line = diagnosis.findings[0].line
    assert line is not None
    assert words in path.read_text().splitlines()[line - 1]


def _loaded(path: Path) -> object:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
