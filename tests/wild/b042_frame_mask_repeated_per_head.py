"""Report b042: https://github.com/ArrowLuo/CLIP4Clip/issues/22

What is wrong: repeat() lays the masks of all samples in a row, n_head times; the copies of one sample have to be together.
"""

from torch import nn


class FrameAttention(nn.Module):
    """Temporal attention over the frames of a video: (batch, frames, d_model) in and out."""

    def __init__(self, d_model, n_head):
        super().__init__()
        self.n_head = n_head
        self.attn = nn.MultiheadAttention(d_model, n_head)

    def forward(self, visual_output, video_mask):
        """visual_output: (batch, frames, d_model)

        video_mask: (batch, frames), 1 = a frame of the video, 0 = padding
        """
        extended_mask = (1.0 - video_mask.to(visual_output.dtype).unsqueeze(1)) * -1000000.0
        extended_mask = extended_mask.expand(-1, video_mask.shape[1], -1)
        extended_mask = extended_mask.repeat(self.n_head, 1, 1)  # bug
        x = visual_output.permute(1, 0, 2)
        x = self.attn(x, x, x, need_weights=False, attn_mask=extended_mask)[0]
        return x.permute(1, 0, 2)
