"""Random sentences for comparing two models, the same in every call."""

from collections.abc import Sequence

import torch

from vaswani_transformer import VaswaniConfig


def sample_ids(config: VaswaniConfig, lengths: Sequence[int], vocab_size: int) -> list[list[int]]:
    """Sentences of ordinary tokens with the given lengths, each followed by `</s>`."""
    eos = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id
    special = {config.pad_token_id, config.bos_token_id, config.decoder_start_token_id, eos}
    ordinary = torch.tensor([i for i in range(vocab_size) if i not in special])
    generator = torch.Generator().manual_seed(0)
    drawn = [ordinary[torch.randint(len(ordinary), (length,), generator=generator)].tolist() for length in lengths]
    return [ids if eos is None else [*ids, eos] for ids in drawn]


def padded(rows: Sequence[Sequence[int]], pad: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Pads sentences on the right; returns ids [N, S] and their mask [N, S]."""
    ids = torch.full((len(rows), max(map(len, rows))), pad or 0)
    mask = torch.zeros_like(ids)
    for row, sentence in enumerate(rows):
        ids[row, : len(sentence)], mask[row, : len(sentence)] = torch.tensor(sentence), 1
    return ids, mask


def random_inputs(
    config: VaswaniConfig, sentences: int = 4, length: int = 12, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Sources and targets [N, T] of different lengths, padded on the right; see `scores.compare`."""
    generator = torch.Generator().manual_seed(seed)
    if config.position_encoding == "learned":
        length = min(length, config.max_position_embeddings - config.position_offset)
    lengths = torch.linspace(length, max(1, length // 2), sentences).long()
    mask = (torch.arange(length) < lengths[:, None]).long()
    shape = (sentences, length)
    source = torch.randint(config.vocab_size, shape, generator=generator)
    target = torch.randint(config.decoder_vocab_size, shape, generator=generator)
    target[:, 0] = config.decoder_start_token_id
    return {
        "input_ids": source.masked_fill(mask == 0, config.pad_token_id),
        "attention_mask": mask,
        "decoder_input_ids": target,
        "decoder_attention_mask": mask.flip(0),
    }
