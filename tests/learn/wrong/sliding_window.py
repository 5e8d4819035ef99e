# === window-off-by-one: the steps back are counted
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j <= window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === window-off-by-one: two triangles
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    ones = torch.ones(1, 1, seq_len, seq_len, dtype=torch.bool)
    return ones.tril().triu(-window)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === window-one-too-narrow
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j + 1 < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === future-visible: the distance without its sign
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((i - j).abs() < window)[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === window-ahead: rows and columns have changed places
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((i <= j) & (j - i < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === window-ignored: an "or" in place of an "and"
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & ((i - j < window) | (j < seq_len)))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === self-hidden
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j < i) & (i - j <= window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === blocks-in-place-of-window
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i // window == j // window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === empty-window-unchecked: a loop over the rows
def make_window_allowed_mask(seq_len, window):
    mask = torch.zeros(1, 1, seq_len, seq_len, dtype=torch.bool)
    for i in range(seq_len):
        for j in range(max(0, i - window + 1), i + 1):
            mask[:, :, i, j] = True
    return mask


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === leading-axes-missing
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))


def visible_count(seq_len, window):
    return window * (window + 1) // 2 + (seq_len - window) * window


# === first-rows-counted-full
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * seq_len


# === corner-off-by-one
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window - 1) // 2 + (seq_len - window) * window


# === count-as-float
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return window * (window + 1) / 2 + (seq_len - window) * window


# === first-rows-left-out
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return sum(window for i in range(seq_len) if i + 1 >= window) if seq_len < 1000 else window * (seq_len - window + 1)


# === raises: the mask is built and counted
def make_window_allowed_mask(seq_len, window):
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    return int(make_window_allowed_mask(seq_len, window).sum())
