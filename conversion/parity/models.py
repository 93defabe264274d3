"""Compares a converted model with a model of transformers that has the same ids."""

import torch
from transformers import GenerationConfig, PreTrainedModel

from vaswani_transformer import VaswaniForConditionalGeneration

from .samples import padded, sample_ids
from .scores import Parity, compare
from .translations import Verdicts


@torch.no_grad()
def compare_models(model: VaswaniForConditionalGeneration, reference: PreTrainedModel, against: str) -> Parity:
    """Compares logits for random sentences, and translations with 4 beams."""
    config = model.config
    longest = min(reference.config.max_position_embeddings, 24) - 2
    lengths = tuple(max(1, longest // n) for n in (1, 2, 3, 5))
    source, mask = padded(sample_ids(config, lengths, config.vocab_size), config.pad_token_id)
    target, target_mask = padded(sample_ids(config, lengths[::-1], config.decoder_vocab_size), config.pad_token_id)
    start = torch.full((len(target), 1), config.decoder_start_token_id)
    inputs = {
        "input_ids": source,
        "attention_mask": mask,
        "decoder_input_ids": torch.cat((start, target[:, :-1]), dim=1),
    }
    logits = reference(**inputs, use_cache=False).logits
    parity = compare(model, {**inputs, "decoder_attention_mask": target_mask}, logits, against)
    search, verdicts = beam_search_config(model, min(longest, 16)), Verdicts()
    ours, original = (m.generate(source, attention_mask=mask, generation_config=search) for m in (model, reference))
    for row in range(len(source)):
        sentence = {"input_ids": source[row, None], "attention_mask": mask[row, None]}
        verdicts.add(model, sentence, ours[row, 1:].tolist(), original[row, 1:].tolist(), search)
    return parity.with_translations(verdicts)


def beam_search_config(model: VaswaniForConditionalGeneration, length: int) -> GenerationConfig:
    """A search with 4 beams that never generates padding."""
    config = model.config
    return GenerationConfig(
        num_beams=4,
        max_new_tokens=length,
        length_penalty=1.0,
        length_penalty_offset=0,
        early_stopping=False,
        do_sample=False,
        bad_words_ids=[[config.pad_token_id]],
        renormalize_logits=True,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
    )
