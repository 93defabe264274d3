"""Compares a converted model with CTranslate2: the score of every token of given translations, and translations.

CTranslate2 computes in float32, with quantised weights converted to float32.
"""

from collections.abc import Sequence
from importlib.util import find_spec

import torch
from transformers import GenerationConfig

from vaswani_transformer import VaswaniForConditionalGeneration

from ..files.ctranslate2 import CTranslate2Files
from ..files.text import one_line
from ..options import ConversionError
from .scores import Parity, tolerance
from .translations import ROUNDING, Verdicts, log_probs


LENGTHS = (1, 4, 9, 23)  # of sources, without special tokens; those of targets are the same in reverse
BEAMS = (1, 4)
MAX_TOKENS = 24  # of a translation


def compare(files: CTranslate2Files, model: VaswaniForConditionalGeneration, positions: int | None) -> Parity | None:
    """Compares CTranslate2's model with ours; returns None if CTranslate2 is not installed.

    `positions` is the number of stored positions, the longest text that CTranslate2 can translate.

    Raises:
        ConversionError: CTranslate2 cannot run the model.
    """
    if find_spec("ctranslate2") is None:
        return None
    import ctranslate2

    threads = torch.get_num_threads()
    try:
        translator = ctranslate2.Translator(
            str(files.folder), device="cpu", compute_type="float32", intra_threads=threads
        )
        return Comparison(files, model, translator, positions).run(f"CTranslate2 {ctranslate2.__version__}")
    except (RuntimeError, ValueError, TypeError) as error:
        if isinstance(error, ConversionError):
            raise
        raise ConversionError(f"CTranslate2 cannot run this model: {one_line(error)}") from None
    finally:
        torch.set_num_threads(threads)  # CTranslate2 sets the number for the whole process


class Comparison:
    """Random sentences for both models, and their comparison."""

    def __init__(
        self, files: CTranslate2Files, model: VaswaniForConditionalGeneration, translator, positions: int | None
    ):
        self.model, self.translator, self.files = model, translator, files
        longest = max(1, min(MAX_TOKENS, positions or MAX_TOKENS) - 2)  # the special tokens need two positions
        self.max_tokens = longest
        lengths = [min(length, longest) for length in LENGTHS]
        generator = torch.Generator().manual_seed(0)
        self.sources = self._draw(files.source, lengths, generator)
        self.targets = self._draw(files.target, lengths[::-1], generator)

    def _draw(self, tokens: Sequence[str], lengths: Sequence[int], generator: torch.Generator) -> list[list[int]]:
        """Sentences of ordinary tokens. CTranslate2 does not know the names of repeated tokens."""
        take = self.files.options.take
        special = {take(f"{name}_token") for name in ("unk", "bos", "eos", "decoder_start")} | {"<pad>", "<blank>"}
        ordinary = torch.tensor(
            [i for i, token in enumerate(tokens) if token not in special and token != f"<repeated {i}>"]
        )
        if not len(ordinary):
            return [[] for _ in lengths]
        return [ordinary[torch.randint(len(ordinary), (length,), generator=generator)].tolist() for length in lengths]

    def run(self, against: str) -> Parity:
        """Scores given translations, then translates with one beam and with four."""
        words = [self._source_words(ids) for ids in self.sources]
        scored = self.translator.score_batch(words, [self._words(ids) for ids in self.targets])
        largest, positions, agree, accepted = 0.0, 0, True, 0.0
        for source, target, result in zip(self.sources, self.targets, scored, strict=True):
            ended = [*target, self.model.config.eos_token_id]
            ours = log_probs(self.model, self._inputs(source), ended)
            scores = torch.tensor(result.log_probs)
            largest = max(largest, float((ours.gather(1, torch.tensor(ended)[:, None])[:, 0] - scores).abs().max()))
            positions += len(ended)
            accepted = max(accepted, tolerance(scores))
        verdicts = Verdicts()
        for beams in BEAMS:
            translated = self._translate(words, beams)
            for source, original in zip(self.sources, translated, strict=True):
                inputs, config = self._inputs(source), self._search(beams)
                ours = self.model.generate(**inputs, generation_config=config)[0, 1:].tolist()
                verdicts.add(self.model, inputs, ours, original, config)
                agree &= beams > 1 or self._are_best(inputs, original)
        parity = Parity(against, len(words), positions, largest, agree, tolerance=accepted)
        return parity.with_translations(verdicts)

    def _translate(self, words: list[list[str]], beams: int) -> list[list[int]]:
        results = self.translator.translate_batch(
            words,
            beam_size=beams,
            length_penalty=0,  # with a penalty, the two rank and stop in different ways
            min_decoding_length=0,
            max_decoding_length=self.max_tokens,
            return_end_token=True,
        )
        ids = {token: i for i, token in enumerate(self.files.target)}
        return [[ids[token] for token in result.hypotheses[0]] for result in results]

    def _search(self, beams: int) -> GenerationConfig:
        names = ("pad_token_id", "eos_token_id", "decoder_start_token_id")
        ids = {name: getattr(self.model.config, name) for name in names}
        limits = dict(min_new_tokens=0, max_new_tokens=self.max_tokens)
        ranking = dict(length_penalty=0.0 if beams > 1 else 1.0, length_penalty_offset=0, early_stopping=False)
        return GenerationConfig(num_beams=beams, do_sample=False, **ids, **limits, **ranking)

    @torch.no_grad()
    def _are_best(self, inputs: dict[str, torch.Tensor], ids: list[int]) -> bool:
        """Whether each token of a greedy translation has the highest score of ours, up to rounding."""
        if not ids:
            return True
        scores = log_probs(self.model, inputs, ids)
        chosen = scores.gather(1, torch.tensor(ids)[:, None])[:, 0]
        return bool((scores.max(dim=-1).values - chosen <= ROUNDING).all())

    def _inputs(self, source: list[int]) -> dict[str, torch.Tensor]:
        """Our input. CTranslate2 adds the special tokens itself if the model's settings say so."""
        ids = {token: i for i, token in enumerate(self.files.source)}
        take = self.files.options.take
        bos = [ids[take("bos_token")]] if take("add_source_bos") else []
        eos = [ids[take("eos_token")]] if take("eos_token") in ids else []
        return {"input_ids": torch.tensor([[*bos, *source, *eos]])}

    def _source_words(self, ids: list[int]) -> list[str]:
        take = self.files.options.take
        ends = take("eos_token") in self.files.source and not take("add_source_eos")
        return [self.files.source[i] for i in ids] + [take("eos_token")] * ends

    def _words(self, ids: list[int]) -> list[str]:
        return [self.files.target[i] for i in ids]
