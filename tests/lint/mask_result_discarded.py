"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def method(self, scores, mask):
        scores.masked_fill(mask == 0, float("-inf"))  # wrong
        return scores.softmax(-1)

    def function(self, scores, mask):
        torch.masked_fill(scores, mask, -1e9)  # wrong
        return scores.softmax(-1)

    def softmax(self, scores):
        F.softmax(scores, dim=-1)  # wrong
        return scores

    def of_an_attribute(self, out, mask):
        out.weights.masked_fill(mask, 0.0)  # wrong
        return out

    def reshaped(self, attention_mask):
        if attention_mask.dim() == 2:
            attention_mask.unsqueeze(1)  # wrong
        return attention_mask

    def negated(self, mask):
        mask.logical_not()  # wrong
        return mask

    def kept(self, scores, mask):
        scores = scores.masked_fill(mask == 0, float("-inf"))
        return scores.softmax(-1)

    def in_place(self, scores, mask):
        scores.masked_fill_(mask == 0, float("-inf"))
        return scores.softmax(-1)

    def written_elsewhere(self, scores):
        torch.softmax(scores, dim=-1, out=self.weights)
        return self.weights

    def of_a_layer_that_keeps_it(self, hidden):
        self.ctc.softmax(hidden)
        self.log_softmax(hidden)
        return self.ctc.probabilities

    def no_mask(self, model, x):
        x.view(-1)
        return x


def test_it_refuses(scores, mask):
    with pytest.raises(RuntimeError):
        scores.masked_fill(mask, float("-inf"))
