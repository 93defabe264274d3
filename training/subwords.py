"""BPE-dropout: cut tokens of a byte-pair encoding at random, differently in each epoch, to regularise small data."""

import json
from collections.abc import Sequence

import numpy as np
from transformers import PreTrainedTokenizerBase

from vaswani_transformer.model.tokenization_vaswani import VaswaniTokenizer


class Merges:
    """The two tokens that each token of a byte-pair encoding was merged from, to cut it again.

    BPE-dropout (Provilkov et al. 2020, arXiv 1910.13267) skips merges while encoding. Here, each token is cut with
    probability `dropout` into the two tokens of its last merge, and these in the same way; no other merges replace the
    undone ones. So texts are encoded only once, and the cuts depend only on a seed.

    Raises:
        ValueError: The tokenizer is not a single byte-pair encoding for both languages.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        model, ids = json.loads(tokenizer.backend_tokenizer.to_str())["model"], tokenizer.get_vocab()
        if isinstance(tokenizer, VaswaniTokenizer) or model["type"] != "BPE":
            raise ValueError("data.bpe_dropout needs a tokenizer with one byte-pair encoding for both languages.")
        self.parts = np.full((max(ids.values()) + 1, 2), -1)  # -1: not merged
        prefix = model["continuing_subword_prefix"] or ""
        for left, right in model["merges"]:
            self.parts[ids[left + right.removeprefix(prefix)]] = ids[left], ids[right]

    def cut(
        self, rows: Sequence[np.ndarray], dropout: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Cut the tokens of N rows; return all ids in a row, and the N + 1 offsets at which rows start and end."""
        ids = np.concatenate(rows)
        row, new = np.repeat(np.arange(len(rows)), [len(r) for r in rows]), np.ones(len(ids), dtype=bool)
        while new.any():
            cut = new & (self.parts[ids, 0] >= 0)
            cut[cut] = rng.random(int(cut.sum())) < dropout
            pieces = 1 + cut
            parts, first = self.parts[ids[cut]], (np.cumsum(pieces) - pieces)[cut]
            ids, row, new = (np.repeat(array, pieces) for array in (ids, row, cut))
            ids[first], ids[first + 1] = parts.T
        return ids, np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(rows)))])
