"""1.2 Keys that are easy to read.

Random numbers make a test that nobody can check by eye. Here you build tensors for a soft lookup whose output
is known before it runs: every key has a direction of its own, every value says where it lies, and every query
asks for one key so clearly that it reads that value and nothing else.
"""

import torch


def make_fixture(wanted, num_keys):
    """Return q, k and v with which query i reads value wanted[i], correct to 0.001.

    wanted: one number of a key for each query, e.g. [2, 0]

    Returns:
      q (len(wanted), num_keys)
      k (num_keys, num_keys): no key has anything in common with another one (their dot product is 0)
      v (num_keys, 2): row j is [j, 10 * j], so that everybody sees where an output comes from

    The lookup is softmax(q @ k.T) @ v, without a scale.
    """
    raise NotImplementedError("TODO: k, v, and queries that ask clearly enough")


if __name__ == "__main__":
    q, k, v = make_fixture([2, 0, 3], num_keys=4)
    weights = torch.softmax(q @ k.T, dim=-1)
    print(weights)
    print(weights @ v)  # [[2, 20], [0, 0], [3, 30]]
