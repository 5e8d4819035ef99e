# === query-too-weak: the keys themselves are the queries
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return k[wanted], k, torch.stack([j, 10 * j], -1)


# === query-too-weak: enough for four keys, not for 64
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    v = torch.tensor([[j, 10.0 * j] for j in range(num_keys)])
    return 12.0 * F.one_hot(torch.tensor(wanted), num_keys).float(), k, v


# === another-key-read: the sign is wrong
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return -30 * k[wanted], k, torch.stack([j, 10 * j], -1)


# === another-key-read: the queries in the order of the keys, whatever is wanted
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    q = torch.zeros(len(wanted), num_keys)
    for i in range(len(wanted)):
        q[i, i] = 50.0
    j = torch.arange(num_keys).float()
    return q, k, torch.stack([j, 10 * j], dim=1)


# === keys-overlap: random keys
def make_fixture(wanted, num_keys):
    torch.manual_seed(0)
    k = torch.randn(num_keys, num_keys)
    j = torch.arange(num_keys).float()
    return 30 * k[wanted], k, torch.stack([j, 10 * j], -1)


# === values-alike: random keys are gone, constant values are there
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    return 30 * k[wanted], k, torch.ones(num_keys, 2)


# === wrong-values: counting from one
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(1, num_keys + 1).float()
    return 30 * k[wanted], k, torch.stack([j, 10 * j], -1)


# === wrong-shape: one row for each axis of the values
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return 30 * k[wanted], k, torch.stack([j, 10 * j])


# === wrong-shape: a query for every key
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return 30 * k, k, torch.stack([j, 10 * j], -1)


# === mean-of-values: queries of zeros
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return torch.zeros(len(wanted), num_keys), k, torch.stack([j, 10 * j], -1)


# === not-finite: as large as can be
def make_fixture(wanted, num_keys):
    k = 1e20 * torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return 1e20 * torch.eye(num_keys)[wanted], k, torch.stack([j, 10 * j], -1)


# === key-is-zero: the first key is number 0
def make_fixture(wanted, num_keys):
    j = torch.arange(num_keys).float()
    k = torch.diag(j)
    return 30 * k[wanted], k, torch.stack([j, 10 * j], -1)


# === wrong-type: a dict
def make_fixture(wanted, num_keys):
    k = torch.eye(num_keys)
    j = torch.arange(num_keys).float()
    return {"q": 30 * k[wanted], "k": k, "v": torch.stack([j, 10 * j], -1)}
