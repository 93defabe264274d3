"""Greedy search: at each step the most probable token, or one drawn by the probabilities.

Nothing here knows the model: scores of the next token come in, and the tokens so far go out.

Shapes: B sentences, b of them not finished, L tokens so far, V vocabulary.
"""

from collections.abc import Callable

import torch

from .beam_search_vaswani import SHARE_TO_DROP, Hypotheses, best_tokens


class GreedySearch:
    """The state of one search over B sentences, and its steps.

    Args:
        prompt: [B, L].
        fill: The token after an end.
        do_sample: Whether tokens are drawn by their probabilities.
        records_tokens: Whether the log-probability of each token is kept.
        vocabulary: The tokens that scores are given of, [V]; otherwise they are counted from 0.
    """

    def __init__(
        self,
        prompt: torch.Tensor,
        fill: int,
        do_sample: bool = False,
        records_tokens: bool = False,
        vocabulary: torch.Tensor | None = None,
    ):
        self.vocabulary = vocabulary
        self.fill, self.do_sample, self.prompt_length = fill, do_sample, prompt.shape[1]
        self.input_ids = prompt  # [b, L]
        self.log_probs = prompt.new_zeros(len(prompt), 0, dtype=torch.float32) if records_tokens else None
        self.sentences = torch.arange(len(prompt), device=prompt.device)  # [b], of which the rows are
        self.runs = torch.ones(len(prompt), dtype=torch.bool, device=prompt.device)  # [b]
        self.lengths = torch.full_like(self.sentences, self.prompt_length)  # [B], where tokens are recorded
        self.dropped: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
        self.is_over = False

    def step(
        self, scores: torch.Tensor, ends: Callable[[torch.Tensor], torch.Tensor], log_probs: torch.Tensor | None = None
    ) -> None:
        """Takes the scores of the next token, [b, V], and where tokens are recorded the log-probabilities [b, V].

        `ends` says which sequences [b, L] end with their last token.
        """
        if self.do_sample:
            token = torch.multinomial(scores.softmax(dim=-1), 1)  # [b, 1]
        else:
            token = best_tokens(scores.unsqueeze(1), 1)[1]  # argmax, but faster
        if self.log_probs is not None:
            log_prob = log_probs.gather(-1, token).masked_fill(~self.runs.unsqueeze(-1), 0.0)
            self.log_probs = torch.cat((self.log_probs, log_prob), dim=-1)
            self.lengths[self.sentences] += self.runs
        token = token if self.vocabulary is None else self.vocabulary[token]
        token = token.masked_fill(~self.runs.unsqueeze(-1), self.fill)
        self.input_ids = torch.cat((self.input_ids, token), dim=-1)
        self.runs = self.runs & ~ends(self.input_ids)
        self.is_over = not bool(self.runs.any())

    def drop_finished(self) -> torch.Tensor | None:
        """Lets finished sentences go, if they are many: the rows that stay, [b]."""
        if self.is_over or self.runs.sum() > (1 - SHARE_TO_DROP) * len(self.runs):
            return None
        gone, rows = ~self.runs, self.runs.nonzero().squeeze(1)
        log_probs = None if self.log_probs is None else self.log_probs[gone]
        self.dropped.append((self.sentences[gone], self.input_ids[gone], log_probs))
        self.sentences, self.input_ids, self.runs = self.sentences[rows], self.input_ids[rows], self.runs[rows]
        self.log_probs = None if self.log_probs is None else self.log_probs[rows]
        return rows

    def best(self) -> Hypotheses:
        """The sequences of all sentences, [B, L]."""
        groups = [*self.dropped, (self.sentences, self.input_ids, self.log_probs)]
        size = sum(len(sentences) for sentences, _, _ in groups)
        tokens = self.input_ids.new_full((size, self.input_ids.shape[1]), self.fill)
        log_probs = None if self.log_probs is None else self.log_probs.new_zeros(size, self.log_probs.shape[1])
        for sentences, ids, their_log_probs in groups:
            tokens[sentences, : ids.shape[1]] = ids
            if log_probs is not None:
                log_probs[sentences, : their_log_probs.shape[1]] = their_log_probs
        return Hypotheses(
            tokens, None if log_probs is None else log_probs.sum(dim=-1), self.lengths, log_probs=log_probs
        )
