"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, d_model, num_heads, pad_id):
        super().__init__()
        self.attn = nn.MultiheadAttention(d_model, num_heads, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(d_model, num_heads), 2)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(d_model, num_heads), 2)
        self.pad_id = pad_id
        self.own = Own(d_model)

    def lower_triangle(self, x):
        mask = torch.tril(torch.ones(x.size(1), x.size(1))).bool()
        return self.attn(x, x, x, attn_mask=mask)[0]  # wrong

    def lower_triangle_method(self, x):
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool).tril()
        return self.attn(x, x, x, attn_mask=mask)[0]  # wrong

    def lower_triangle_compared(self, x):
        T = x.size(1)
        mask = torch.tril(torch.ones(T, T)) == 1
        return self.attn(x, x, x, attn_mask=mask)[0]  # wrong

    def negated_upper_triangle(self, x):
        blocked = torch.triu(torch.ones(x.size(1), x.size(1), dtype=torch.bool), diagonal=1)
        return self.attn(x, x, x, attn_mask=~blocked)[0]  # wrong

    def transposed_triangle(self, x, sz):
        mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
        return self.attn(x, x, x, attn_mask=mask)[0]  # wrong

    def not_padding(self, tokens, x):
        mask = tokens != self.pad_id
        return self.attn(x, x, x, key_padding_mask=mask)[0]  # wrong

    def not_padding_method(self, tokens, x):
        return self.attn(x, x, x, key_padding_mask=tokens.ne(self.pad_id))[0]  # wrong

    def within_length(self, x, lengths):
        mask = torch.arange(x.size(1))[None, :] < lengths[:, None]
        return self.encoder(x, src_key_padding_mask=mask)  # wrong

    def clear_name(self, x, valid_mask):
        return self.encoder(x, src_key_padding_mask=valid_mask)  # wrong

    def clear_name_by_position(self, x, keep_mask):
        return self.encoder(x, keep_mask)  # wrong

    def decoder_mask(self, x, memory):
        T = x.size(1)
        causal = torch.ones(T, T).tril().to(torch.bool)
        return self.decoder(x, memory, tgt_mask=causal)  # wrong

    def upper_triangle(self, x):
        mask = torch.triu(torch.ones(x.size(1), x.size(1)), diagonal=1).bool()
        return self.attn(x, x, x, attn_mask=mask)[0]

    def negated(self, x):
        mask = torch.tril(torch.ones(x.size(1), x.size(1))).bool()
        return self.attn(x, x, x, attn_mask=~mask)[0]

    def compared_with_zero(self, x):
        mask = torch.tril(torch.ones(x.size(1), x.size(1))) == 0
        return self.attn(x, x, x, attn_mask=mask)[0]

    def logical_not(self, x, valid_mask):
        return self.attn(x, x, x, key_padding_mask=valid_mask.logical_not())[0]

    def padding(self, tokens, x):
        return self.attn(x, x, x, key_padding_mask=tokens == self.pad_id)[0]

    def additive(self, x, sz):
        mask = (torch.triu(torch.ones(sz, sz)) == 1).transpose(0, 1)
        mask = mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)
        return self.attn(x, x, x, attn_mask=mask)[0]

    def unknown(self, x, mask):
        return self.attn(x, x, x, attn_mask=mask)[0]

    def either(self, x, valid_mask, flag):
        mask = valid_mask if flag else ~valid_mask
        return self.attn(x, x, x, key_padding_mask=mask)[0]

    def written_into(self, x):
        mask = torch.tril(torch.ones(4, 4)).bool()
        mask[:] = False
        return self.attn(x, x, x, attn_mask=mask)[0]

    def of_another_module(self, x, keep_mask):
        return self.own(x, key_padding_mask=keep_mask)


class EitherModule(nn.Module):
    def __init__(self, d_model, fused):
        super().__init__()
        if fused:
            self.attn = Own(d_model)
        else:
            self.attn = nn.MultiheadAttention(d_model, 4)

    def forward(self, x, keep_mask):
        return self.attn(x, x, x, key_padding_mask=keep_mask)


class Own(nn.Module):
    """Its True may be looked at."""

    def forward(self, x, key_padding_mask=None):
        return x
