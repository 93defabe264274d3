"""Greedy search and sampling: at each step the most probable token, or one drawn by the probabilities.

Nothing here knows the model: scores of the next token come in, and the tokens so far go out.

Shapes: B sentences, b of them still in the batch, L tokens so far, V vocabulary.
"""

from collections.abc import Callable

import torch

from .beam_search_vaswani import MIN_FINISHED_SHARE, best_tokens


class GreedySearch:
    """The state of one search over B sentences, and its steps.

    Args:
        prompt: [B, L].
        fill: The token after an end.
        do_sample: Whether tokens are drawn by their probabilities.
        vocabulary: The tokens that the scores belong to, [V]; by default 0 to V - 1.
    """

    def __init__(
        self, prompt: torch.Tensor, fill: int, do_sample: bool = False, vocabulary: torch.Tensor | None = None
    ):
        self.vocabulary, self.fill, self.do_sample = vocabulary, fill, do_sample
        self.input_ids = prompt  # [b, L]
        self.sentences = torch.arange(len(prompt), device=prompt.device)  # [b], the sentence of each row
        self.runs = torch.ones(len(prompt), dtype=torch.bool, device=prompt.device)  # [b]
        self.dropped: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.is_over = False

    def step(self, scores: torch.Tensor, ends: Callable[[torch.Tensor], torch.Tensor]):
        """Append a token to each sequence, by the scores of the next token [b, V].

        `ends` tells which sequences [b, L] end with their last token.
        """
        if self.do_sample:
            token = torch.multinomial(scores.softmax(dim=-1), 1)  # [b, 1]
        else:
            token = best_tokens(scores.unsqueeze(1), 1)[1]  # argmax, but faster
        token = token if self.vocabulary is None else self.vocabulary[token]
        token = token.masked_fill(~self.runs.unsqueeze(-1), self.fill)
        self.input_ids = torch.cat((self.input_ids, token), dim=-1)
        self.runs = self.runs & ~ends(self.input_ids)
        self.is_over = not bool(self.runs.any())

    def drop_finished(self) -> torch.Tensor | None:
        """Drop finished sentences if they are many, and return the rows that stay, [b]."""
        if self.is_over or self.runs.sum() > (1 - MIN_FINISHED_SHARE) * len(self.runs):
            return None
        is_done, rows = ~self.runs, self.runs.nonzero().squeeze(1)
        self.dropped.append((self.sentences[is_done], self.input_ids[is_done]))
        self.sentences, self.input_ids, self.runs = self.sentences[rows], self.input_ids[rows], self.runs[rows]
        return rows

    def sequences(self) -> torch.Tensor:
        """The sequences of all sentences, [B, L]."""
        groups = [*self.dropped, (self.sentences, self.input_ids)]
        count = sum(len(sentences) for sentences, _ in groups)
        sequences = self.input_ids.new_full((count, self.input_ids.shape[1]), self.fill)
        for sentences, ids in groups:
            sequences[sentences, : ids.shape[1]] = ids
        return sequences
