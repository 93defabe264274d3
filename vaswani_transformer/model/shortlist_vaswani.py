"""A lexical shortlist: of the target vocabulary only what words of the source may become, for a faster softmax.

    shortlist = Shortlist.from_pretrained(path)
    model.generate(**inputs, shortlist=shortlist)

For each source token a file beside the checkpoint, shortlist.safetensors, lists target tokens that were aligned to it
in training text, and the token itself, so that what is copied stays possible; besides there are tokens that any
translation may hold. Each sentence has a shortlist of its own, whatever else is in the batch (Jean et al. 2015 and
Marian share one within a batch). Probabilities are then those among its tokens. `training.shortlist` makes the file.

Shapes: B sentences, n beams, R rows of a step (a sentence's beams one after the other), S source tokens, V source
and W target vocabulary, K tokens of W that any sentence of a batch may hold.
"""

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn
from transformers import LogitsProcessor
from transformers.utils import cached_file

from .cpu_vaswani import is_watched, product
from .int8_vaswani import Int8Linear


FILE = "shortlist.safetensors"
IMPOSSIBLE = float("-inf")


class Shortlist:
    """Which target tokens the translation of a source token may hold.

    Args:
        tokens: [V, N] whole numbers, N target tokens for each source token; where there are fewer, some twice.
        always: [A] target tokens that any translation may hold, the end of a sentence among them.
    """

    def __init__(self, tokens: torch.Tensor, always: torch.Tensor):
        self.tokens, self.always = tokens.long(), always.long()

    @classmethod
    def from_pretrained(cls, path: str | Path, revision: str | None = None) -> "Shortlist":
        """That of a folder or of a repository on the Hub.

        Raises:
            ValueError: there is none, or its file is damaged.
        """
        advice = "`python -m training.shortlist` makes one."
        try:
            file = cached_file(str(path), FILE, revision=revision)
        except OSError as error:
            raise ValueError(f"{path} has no {FILE}. {advice}") from error
        try:
            tensors = load_file(file)
            return cls(tensors["tokens"], tensors["always"])
        except (SafetensorError, KeyError) as error:
            raise ValueError(f"{file} is damaged ({error}). {advice}") from error

    def save_pretrained(self, folder: str | Path):
        """Writes the file into a checkpoint's folder, whole or not at all."""
        highest = int(max(self.tokens.max(), self.always.max()))
        dtype = torch.uint16 if highest < 1 << 16 else torch.int32
        tensors = {"tokens": self.tokens.to(dtype), "always": self.always.to(dtype)}
        path = Path(folder, FILE)
        partial = path.with_suffix(".partial")
        partial.write_bytes(save(tensors))
        partial.replace(path)

    def check(self, vocab_size: int, target_vocab_size: int):
        """Raises ValueError where it belongs to another model."""
        highest = int(max(self.tokens.max(), self.always.max()))
        if len(self.tokens) != vocab_size or highest >= target_vocab_size:
            raise ValueError(
                f"The shortlist is of another model: for {len(self.tokens):,} source tokens and at least "
                f"{highest + 1:,} target tokens, while this one has {vocab_size:,} and {target_vocab_size:,}."
            )

    def of(self, input_ids: torch.Tensor, target_vocab_size: int, never: int | None = None) -> torch.Tensor:
        """Sources [B, S] -> which target tokens their translations may hold, bool [B, W]; `never` is not among them."""
        listed = self.tokens[input_ids.cpu()].flatten(1)  # [B, S * N]
        allowed = torch.zeros(len(input_ids), target_vocab_size, dtype=torch.bool)
        allowed.scatter_(1, listed, True)
        allowed[:, self.always] = True
        if never is not None:
            allowed[:, never] = False
        return allowed.to(input_ids.device)


class OnlyShortlisted(LogitsProcessor):
    """Keeps tokens that are not on their sentence's shortlist, allowed [B, W], from being produced: scores [R, W]."""

    def __init__(self, allowed: torch.Tensor):
        self.allowed = allowed

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        rows = len(scores) // len(self.allowed)
        return scores.masked_fill(~self.allowed.repeat_interleave(rows, dim=0), IMPOSSIBLE)


class ShortProduct:
    """The pre-softmax product for the tokens of a batch's shortlists only: [R, D] -> [R, K], -inf where not allowed.

    Args:
        lm_head: The pre-softmax linear map.
        allowed: [B, W].
    """

    def __init__(self, lm_head: nn.Module, allowed: torch.Tensor):
        self.vocabulary, self.width = allowed.any(dim=0).nonzero().squeeze(1), allowed.shape[1]  # [K], W
        self.product = rows_of(lm_head, self.vocabulary)
        hidden = ~allowed.index_select(1, self.vocabulary)
        self.mask = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, IMPOSSIBLE)  # [B, K]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.product(x).float()
        logits.unflatten(0, (len(self.mask), -1)).add_(self.mask.unsqueeze(1))
        return logits

    def widened(self, scores: torch.Tensor) -> torch.Tensor:
        """[R, K] -> [R, W], -inf for all other tokens."""
        return scores.new_full((len(scores), self.width), IMPOSSIBLE).index_copy_(1, self.vocabulary, scores)

    def keep(self, sentences: torch.Tensor):
        """Goes on with these sentences only: indices [b]."""
        self.mask = self.mask.index_select(0, sentences)


def rows_of(layer: nn.Module, rows: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """A linear map with these of its outputs alone: indices [K]."""
    if not (type(layer) is nn.Linear or isinstance(layer, Int8Linear)) or is_watched(layer):
        return lambda x: product(layer)(x).index_select(-1, rows)
    part = copy.copy(layer)
    part._parameters = {
        name: None if x is None else nn.Parameter(x.detach().index_select(0, rows), requires_grad=False)
        for name, x in layer._parameters.items()
    }
    part.out_features = len(rows)
    return product(part)
