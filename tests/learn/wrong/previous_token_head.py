# === own-token-read: queries equal to their keys
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)
    return 200 * k, k


# === own-token-read: not rolled at all
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 20 * math.sqrt(seq_len)  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 0, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k


# === next-token-read: rolled the other way
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 20 * math.sqrt(seq_len)  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, -1, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k


# === query-too-weak: without a factor
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 1.0  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 1, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k


# === query-too-weak: the scale is forgotten, which shows in long texts only
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 20.0  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 1, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k


# === query-too-weak: keys of random directions
def previous_token_fixture(seq_len):
    k = F.normalize(torch.randn(seq_len, 4), dim=-1)
    return 14 * k.roll(1, 0), k


# === own-token-read: positions as numbers, the nearest and not the one before
def previous_token_fixture(seq_len):
    i = torch.arange(seq_len, dtype=torch.float32)
    k = torch.stack([i, -(i**2)], dim=-1)
    q = torch.stack([2 * i, torch.ones(seq_len)], dim=-1) * 30
    return q, k


# === mean-of-values: queries of zeros
def previous_token_fixture(seq_len):
    return torch.zeros(seq_len, seq_len), torch.eye(seq_len)


# === another-key-read: larger and larger keys, so that only the mask keeps a query from the last one
def previous_token_fixture(seq_len):
    i = torch.arange(seq_len, dtype=torch.float32)[:, None]
    k = i - 2
    q = torch.full((seq_len, 1), 50.0)
    return q, k


# === wrong-type: the values are returned as well
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 20 * math.sqrt(seq_len)  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 1, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k, torch.eye(seq_len)


# === not-finite: infinity asks most clearly
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = float("inf")  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 1, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k


# === wrong-shape: the first query is left out
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 20 * math.sqrt(seq_len)  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 1, dims=0)  # (T, T): query i asks for direction i - 1
    return q[1:], k


# === raises: a length of one was not thought of
def previous_token_fixture(seq_len):
    k = torch.eye(seq_len)
    q = torch.zeros(seq_len, seq_len)
    q[0] = k[1]
    q[1:] = k[:-1]
    return 300 * q, k
