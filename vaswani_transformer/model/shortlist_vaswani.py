"""A lexical shortlist: only the target tokens that the source's tokens may translate to, for a faster softmax.

    shortlist = Shortlist.from_pretrained(path)
    model.generate(**inputs, shortlist=shortlist)

The file shortlist.safetensors beside a checkpoint lists for each source token the target tokens that were aligned to
it in training text, and the token itself, so that it can be copied. It also lists tokens that are always allowed.
`python -m training.release shortlist` makes the file. Each sentence has its own shortlist, independent of the rest of
the batch (Jean et al. 2015 and Marian share one within a batch), and probabilities are those among its tokens.

Shapes: B sentences, n beams, R rows of a step (a sentence's beams one after the other), S source tokens, V source
and W target vocabulary, K tokens of W on the shortlist of any sentence of the batch.
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

from .beam_search_vaswani import IMPOSSIBLE
from .cpu_vaswani import fast_linear, is_hooked
from .int8_vaswani import Int8Linear


FILE = "shortlist.safetensors"


class Shortlist:
    """The target tokens that each source token may translate to; an argument of `generate` and of pipelines.

    Args:
        tokens: Integers [V, N]: N target tokens for each source token, with repetitions if there are fewer.
        always: Integers [A]: target tokens that every translation may contain, the end token among them.
    """

    def __init__(self, tokens: torch.Tensor, always: torch.Tensor):
        self.tokens, self.always = tokens.long(), always.long()

    @classmethod
    def from_pretrained(cls, path: str | Path, revision: str | None = None) -> "Shortlist":
        """Load shortlist.safetensors from a checkpoint's folder or Hub repository.

        Args:
            path: A folder, or the id of a repository.
            revision: A branch, tag or commit of the repository.

        Raises:
            ValueError: The file is missing or damaged.
        """
        advice = 'The training guide describes how to make one ("Release a checkpoint").'
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
        """Write shortlist.safetensors into a checkpoint's folder. An interruption never leaves half a file."""
        highest = int(max(self.tokens.max(), self.always.max()))
        dtype = torch.uint16 if highest < 1 << 16 else torch.int32
        tensors = {"tokens": self.tokens.to(dtype), "always": self.always.to(dtype)}
        path = Path(folder, FILE)
        partial = path.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with partial.open("xb") as file:  # not "w", which would follow a link of this name
            file.write(save(tensors))
        partial.replace(path)

    def check(self, vocab_size: int, target_vocab_size: int):
        """Check that the shortlist fits a model with vocabularies of these sizes.

        Raises:
            ValueError: It belongs to another model.
        """
        highest = int(max(self.tokens.max(), self.always.max()))
        if len(self.tokens) != vocab_size or highest >= target_vocab_size:
            raise ValueError(
                f"This shortlist belongs to another model, with {len(self.tokens):,} source tokens and at least "
                f"{highest + 1:,} target tokens; this model has {vocab_size:,} and {target_vocab_size:,}."
            )

    def allowed_tokens(self, input_ids: torch.Tensor, target_vocab_size: int, never: int | None = None) -> torch.Tensor:
        """Sources [B, S] -> the mask of the target tokens that their translations may contain, bool [B, W].

        `never` is a token that is ruled out, such as padding.
        """
        listed = self.tokens[input_ids.cpu()].flatten(1)  # [B, S * N]
        allowed = torch.zeros(len(input_ids), target_vocab_size, dtype=torch.bool)
        allowed.scatter_(1, listed, True)
        allowed[:, self.always] = True
        if never is not None:
            allowed[:, never] = False
        return allowed.to(input_ids.device)


class OnlyShortlisted(LogitsProcessor):
    """Rules out tokens that are not on their sentence's shortlist: allowed [B, W], scores [R, W]."""

    def __init__(self, allowed: torch.Tensor):
        self.allowed = allowed

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        rows = len(scores) // len(self.allowed)
        return scores.masked_fill(~self.allowed.repeat_interleave(rows, dim=0), IMPOSSIBLE)


class ShortProduct:
    """The pre-softmax product for the tokens on a batch's shortlists: [R, D] -> [R, K], -inf if not on the sentence's.

    Args:
        lm_head: The pre-softmax linear map.
        allowed: The mask of each sentence's tokens, [B, W].
    """

    def __init__(self, lm_head: nn.Module, allowed: torch.Tensor):
        self.vocabulary, self.width = allowed.any(dim=0).nonzero().squeeze(1), allowed.shape[1]  # [K], W
        self.product = select_outputs(lm_head, self.vocabulary)
        is_forbidden = ~allowed.index_select(1, self.vocabulary)
        zeros = torch.zeros(is_forbidden.shape, device=allowed.device)
        self.mask = zeros.masked_fill_(is_forbidden, IMPOSSIBLE)  # [B, K]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        logits = self.product(x).float()
        logits.unflatten(0, (len(self.mask), -1)).add_(self.mask.unsqueeze(1))
        return logits

    def widen(self, scores: torch.Tensor) -> torch.Tensor:
        """[R, K] -> [R, W], -inf for all other tokens."""
        return scores.new_full((len(scores), self.width), IMPOSSIBLE).index_copy_(1, self.vocabulary, scores)

    def select(self, sentences: torch.Tensor):
        """Keep these sentences only: indices [b]."""
        self.mask = self.mask.index_select(0, sentences)


def select_outputs(layer: nn.Module, rows: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """A linear map that computes only these outputs of `layer`: indices [K]."""
    if not (type(layer) is nn.Linear or isinstance(layer, Int8Linear)) or is_hooked(layer):
        return lambda x: fast_linear(layer)(x).index_select(-1, rows)
    part = copy.copy(layer)
    part._parameters = {
        name: None if x is None else nn.Parameter(x.detach().index_select(0, rows), requires_grad=False)
        for name, x in layer._parameters.items()
    }
    part.out_features = len(rows)
    return fast_linear(part)
