"""Prepare a checkpoint for the engine in the browser (page/engine), which computes what the server computes."""

import json
from typing import Any

import torch
from safetensors.torch import save

from ..learn_bpe import MIN_VOCAB_SIZE, learn_tokenizer
from .checkpoints import LoadedCheckpoint
from .runs import Refused


# The engine implements these values only: they are the paper's, and those of the included checkpoints. Norms may be
# anywhere.
CONFIG = {
    "layer_norm_deviation": "biased",
    "position_encoding": "sinusoidal",
    "position_layout": "interleaved",
    "position_divisor": "half",
    "position_offset": 0,
    "scale_embedding": True,
    "scale_attention": True,
    "share_embeddings": "all",
    "softmax_bias": False,
    "source_space_embedding": False,
    "attention_bias": False,
    "feed_forward_bias": True,
    "activation_function": "relu",
}
GENERATION = {"early_stopping": "never"}
# Settings with any value: the engine knows them, or they do not change the search.
FREE_SETTINGS = {
    *("num_beams", "length_penalty", "length_penalty_offset", "min_new_tokens", "pad_token_id", "eos_token_id"),
    *("bos_token_id", "decoder_start_token_id", "alignment_head", "confidence", "transformers_version", "use_cache"),
    *("_from_model_config", "output_attentions", "output_hidden_states"),
}


def check_engine(checkpoint: LoadedCheckpoint):
    """Check that the engine in the browser can run the checkpoint.

    Raises:
        Refused: It cannot; the message names every reason.
    """
    problems = [*config_problems(checkpoint), *generation_problems(checkpoint), *tokenizer_problems(checkpoint)]
    if problems:
        raise Refused(
            f"The engine in the browser cannot run {checkpoint.name}: {'; '.join(problems)}. Use `vaswani explore` "
            "without --export."
        )


def config_problems(checkpoint: LoadedCheckpoint) -> list[str]:
    values = {name: getattr(checkpoint.model.config, name) for name in CONFIG}
    return [f"{name} is {value!r}" for name, value in values.items() if value != CONFIG[name]]


def generation_problems(checkpoint: LoadedCheckpoint) -> list[str]:
    settings = checkpoint.model.generation_config.to_diff_dict()
    values = {name: settings.get(name) for name in (*GENERATION, *settings) if name not in FREE_SETTINGS}
    problems = [f"{name} is {value!r}" for name, value in values.items() if value != GENERATION.get(name)]
    if checkpoint.model.generation_config.eos_token_id != checkpoint.tokenizer.eos_token_id:
        problems.append("the model and the tokenizer have different end tokens")
    return problems


def tokenizer_problems(checkpoint: LoadedCheckpoint) -> list[str]:
    backend = getattr(checkpoint.tokenizer, "backend_tokenizer", None)
    is_plain = backend is not None and getattr(checkpoint.tokenizer, "split_special_tokens", False)
    if is_plain and tokenizer_steps(backend) == tokenizer_steps(learn_tokenizer([], MIN_VOCAB_SIZE).backend_tokenizer):
        return []
    return ["its tokenizer was not made by `learn_tokenizer`"]


def tokenizer_steps(backend: Any) -> dict[str, Any]:
    """Return all steps of a tokenizer except for its vocabulary, and for the step that makes each digit a token."""
    steps = json.loads(backend.to_str())
    model = {name: value for name, value in steps["model"].items() if name not in ("vocab", "merges")}
    parts = (steps["pre_tokenizer"] or {}).get("pretokenizers", [])
    words = [part for part in parts if part.get("pattern") != {"Regex": r" ?\d"}]
    return {name: steps[name] for name in ("added_tokens", "normalizer", "post_processor", "decoder")} | {
        "model": model,
        "pre_tokenizer": words,
    }


def engine_files(checkpoint: LoadedCheckpoint) -> dict[str, bytes]:
    """Return the files that the engine reads, by name."""
    config = checkpoint.model.config.to_dict()
    config.pop("_name_or_path", None)  # a path of this computer
    return {
        "config.json": json.dumps(config, indent=2).encode(),
        "tokenizer.json": checkpoint.tokenizer.backend_tokenizer.to_str().encode(),
        "model.safetensors": weights_file(checkpoint),
    }


def weights_file(checkpoint: LoadedCheckpoint) -> bytes:
    """Serialise the weights: in float16 if that loses nothing (as for included checkpoints), otherwise in float32."""
    weights = {name: weight.detach().float().contiguous() for name, weight in checkpoint.model.named_parameters()}
    halves = {name: weight.half() for name, weight in weights.items()}
    is_lossless = all(torch.equal(halves[name].float(), weight) for name, weight in weights.items())
    return save(halves if is_lossless else weights)
