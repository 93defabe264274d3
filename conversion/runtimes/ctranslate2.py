"""Exports a checkpoint to a model for CTranslate2's Translator, in float32 or quantised.

    vaswani convert to-ctranslate2 mini-en-de OUT --quantization int8

The card in OUT shows how to translate. To rank translations like our `generate`:

    from conversion.runtimes.ctranslate2 import translate
    translate(ctranslate2.Translator("OUT"), AutoTokenizer.from_pretrained("OUT"), ["Hello!"])

Token probabilities, greedy search, and beam search with length_penalty=0 equal those of our `generate`. Differences:

- CTranslate2 ranks by log P / length^length_penalty, without counting `</s>`. It has no option for the paper's ranking,
  log P / ((5 + length) / 6)^0.6 with `</s>`; `translate` reranks its hypotheses. For mini-en-de and the first 60
  sentences of Multi30k's test_2016_flickr, 59 translations then equal ours, with CTranslate2's ranking 47.
- With a length penalty, its beam search stops once as many hypotheses as beams have ended (see `patience`).
- While `</s>` is not yet allowed (`min_decoding_length`), it renormalises the probabilities of the other tokens.
- It does not read the forbidden tokens of generation_config.json (`suppress_tokens`, such as Marian's `<unk>`, and
  `bad_words_ids`). Pass them: `translate_batch(..., suppress_sequences=[["<unk>"]])`.
- By default it limits output to 256 tokens and input to 1,024; our limit is the input's length plus 50.
- The table of positions has 2,048 rows, or `--positions`. Longer texts raise an error.
- In int8 about one translation in ten differs: of these 60 sentences, 55 greedy translations equal ours, and 53 with
  `translate`.

As in our search, padding is never generated: its bias is so low that its probability is 0.
"""

from pathlib import Path
from typing import Annotated, Literal

import ctranslate2
import torch
import typer
from ctranslate2.specs.model_spec import ACCEPTED_MODEL_TYPES
from transformers import PreTrainedTokenizerBase

from vaswani_transformer import Shortlist, VaswaniForConditionalGeneration
from vaswani_transformer.model.shortlist_vaswani import FILE as SHORTLIST_FILE

from ..options import ConversionError
from ..parity.samples import padded, sample_ids
from .ctranslate2_spec import VaswaniConverter
from .exports import accepted_difference, exported_folder, load, snippet


# Largest accepted mean difference between the log-probabilities of a quantised model and ours.
QUANTISED_TOLERANCE = 0.5
EXAMPLE = """
translator = ctranslate2.Translator(folder)
result = translator.translate_batch([tokenizer("TEXT").tokens()], beam_size=4{options})[0]
tokenizer.convert_tokens_to_string(result.hypotheses[0])
"""


def export(
    checkpoint: str,
    out: Path,
    quantization: Annotated[Literal[*ACCEPTED_MODEL_TYPES], typer.Option(help="Type of the weights.")] = "float32",
    positions: Annotated[int, typer.Option(metavar="N", help="Maximum length of a text, in tokens.")] = 2048,
):
    """Writes the folder `out` after comparing CTranslate2's log-probabilities with ours.

    Raises:
        ConversionError: the checkpoint cannot be loaded, CTranslate2 cannot represent it, or the results differ.
    """
    model, tokenizer = load(checkpoint)
    converter = VaswaniConverter(model, tokenizer, positions)
    vocabulary_map = read_vocabulary_map(Path(model.name_or_path), converter)
    example = EXAMPLE.format(options=", use_vmap=True" if vocabulary_map else "")
    start = snippet(example, "ctranslate2", tokenizer=tokenizer)
    with exported_folder(out, model, start, "ctranslate2", tokenizer) as folder:
        converter.convert(str(folder), force=True)
        *usual, difference = sorted(differences(model, converter, folder))
        accepted = accepted_difference(model)
        # At one token, a near-tie inside the model may multiply rounding errors; a bug would change most tokens.
        if not (difference < accepted or (usual[-1] < accepted and difference < 10 * accepted)):
            raise ConversionError(
                f"CTranslate2's log-probabilities differ from ours by up to {difference:.1e}; nothing was written."
            )
        version = f"CTranslate2 {ctranslate2.__version__}"
        print(f"{version}, float32: largest difference of log-probabilities {difference:.1e}")
        if quantization != "float32":
            converter.convert(str(folder), quantization=quantization, force=True)
            all_differences = differences(model, converter, folder)
            difference = sum(all_differences) / len(all_differences)
            if not difference < QUANTISED_TOLERANCE:
                raise ConversionError(
                    f"In {quantization}, log-probabilities differ by {difference:.2f} on average (accepted: below "
                    f"{QUANTISED_TOLERANCE}); nothing was written."
                )
            print(f"{version}, {quantization}: mean difference {difference:.1e}")
        if vocabulary_map:
            (folder / "vmap.txt").write_text(vocabulary_map, encoding="utf-8", newline="\n")


def read_vocabulary_map(folder: Path, converter: VaswaniConverter) -> str | None:
    """Returns the checkpoint's shortlist as CTranslate2's `vmap.txt`, for `use_vmap=True`; None if there is none.

    Each line is a source token, a tab, and target tokens. The first line has no source token; its target tokens are
    allowed in any translation.

    Raises:
        ConversionError: the shortlist is damaged or belongs to another model.
    """
    config = converter.model.config
    if not (folder / SHORTLIST_FILE).is_file():
        return None
    try:
        shortlist = Shortlist.from_pretrained(folder)
        shortlist.check(config.vocab_size, len(converter.target_tokens))
    except ValueError as error:
        raise ConversionError(str(error)) from error
    rows = zip(["", *converter.source_tokens], [shortlist.always, *shortlist.tokens], strict=True)
    targets = ((word, [converter.target_tokens[i] for i in dict.fromkeys(ids.tolist())]) for word, ids in rows)
    return "".join(f"{word}\t{' '.join(words)}\n" for word, words in targets)


def translate(
    translator: ctranslate2.Translator, tokenizer: PreTrainedTokenizerBase, texts: list[str], beams: int = 4,
    alpha: float = 0.6, offset: float = 5,
) -> list[str]:  # fmt: skip
    """Translates with beam search, ranked by log P / ((offset + length) / (offset + 1))^alpha like our `generate`."""

    def rank(hypothesis: list[str], score: float) -> float:  # of n tokens, and log P / n^alpha
        n = len(hypothesis)
        return score * (n * (offset + 1) / (offset + n + 1)) ** alpha

    results = translator.translate_batch(
        [tokenizer(text).tokens() for text in texts],
        beam_size=beams,
        num_hypotheses=beams,
        length_penalty=alpha,
        return_scores=True,
    )
    ranked = [max(zip(r.hypotheses, r.scores, strict=True), key=lambda pair: rank(*pair))[0] for r in results]
    return [tokenizer.convert_tokens_to_string(tokens) for tokens in ranked]


@torch.no_grad()
def differences(model: VaswaniForConditionalGeneration, converter: VaswaniConverter, folder: Path) -> list[float]:
    """Returns |log P of CTranslate2 - log P of ours| for the tokens of given targets and for greedy translations.

    Greedy translations are compared by their scores, because either of two tokens with equal scores is right.
    """
    config = model.config
    longest = min(converter.positions, config.max_position_embeddings or converter.positions) - 2
    lengths = tuple(min(n, max(longest - config.position_offset, 1)) for n in (1, 4, 9, 23))
    sources = sample_ids(config, lengths, len(converter.source_tokens))
    targets = sample_ids(config, lengths[::-1], len(converter.target_tokens))
    source_words = [[converter.source_tokens[i] for i in ids] for ids in sources]
    translator = ctranslate2.Translator(str(folder), device="cpu", intra_threads=torch.get_num_threads())

    def ours(targets: list[list[int]]) -> torch.Tensor:
        """[N, T], 0 after the end"""
        input_ids, attention_mask = padded(sources, config.pad_token_id)
        labels, real = padded(targets, config.pad_token_id)
        start = labels.new_full((len(labels), 1), config.decoder_start_token_id)
        decoder_input_ids = torch.cat((start, labels[:, :-1]), dim=1)
        logits = model(input_ids, attention_mask, decoder_input_ids, use_cache=False).logits
        if config.pad_token_id is not None:
            logits[..., config.pad_token_id] = float("-inf")
        log_probs = logits.log_softmax(dim=-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        return log_probs.masked_fill(real == 0, 0.0)

    target_words = [[converter.target_tokens[i] for i in ids[:-1]] for ids in targets]
    scored = translator.score_batch(source_words, target_words)
    expected = ours(targets)
    differences = [
        abs(a - b)
        for row, result in zip(expected.tolist(), scored, strict=True)
        for a, b in zip(row, result.log_probs, strict=False)
    ]
    longest_output = min(lengths[-1], 16)
    translated = translator.translate_batch(
        source_words,
        beam_size=1,
        length_penalty=0,
        min_decoding_length=0,
        max_decoding_length=longest_output,
        return_scores=True,
    )
    ids = {token: i for i, token in enumerate(converter.target_tokens)}
    outputs = [[ids[token] for token in result.hypotheses[0]] for result in translated]
    ended = [row if len(row) == longest_output else [*row, config.eos_token_id] for row in outputs]
    for row, output, result in zip(ours(ended).sum(dim=-1).tolist(), ended, translated, strict=True):
        differences.append(abs(row - result.scores[0]) / len(output))
    return differences
