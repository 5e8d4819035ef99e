"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
from torch import nn


class Model(nn.Module):
    def assigned(self, tokens, x):
        src_key_padding_mask = tokens != self.pad_id  # wrong
        return self.encoder(x, src_key_padding_mask=src_key_padding_mask)

    def assigned_method(self, tokens, x):
        key_padding_mask = tokens.ne(self.tokenizer.pad_token_id)  # wrong
        return self.layers(x, key_padding_mask=key_padding_mask)

    def handed_over(self, tokens, x):
        return self.encoder(x, src_key_padding_mask=(tokens != self.padding_idx))  # wrong

    def handed_over_with_a_cast(self, tokens, x, pad):
        return self.encoder(x, key_padding_mask=(tokens != pad).to(x.device))  # wrong

    def right(self, tokens, x):
        key_padding_mask = tokens == self.pad_id
        return self.encoder(x, key_padding_mask=key_padding_mask)

    def right_method(self, tokens, x):
        return self.encoder(x, src_key_padding_mask=tokens.eq(self.pad_id))

    def negated_at_once(self, tokens, x):
        key_padding_mask = ~(tokens != self.pad_id)
        return self.encoder(x, key_padding_mask=key_padding_mask)

    def negated_later(self, tokens, x):
        key_padding_mask = tokens != self.pad_id
        return self.encoder(x, key_padding_mask=~key_padding_mask)

    def compared_with_something_else(self, kinds, x):
        return self.encoder(x, key_padding_mask=kinds != self.wanted)

    def made_additive(self, tokens, x):
        return self.encoder(x, key_padding_mask=(tokens != self.pad_id).float())
