"""Build the explorer's responses from a checkpoint or an inspected translation. They can be written as JSON."""

import json
from dataclasses import asdict
from typing import Any

import torch
from safetensors.torch import save

from ..inspection.heads import head_names
from ..inspection.inspection import Alternative, Inspection
from ..inspection.token_text import Token, TokenReader, target_reader
from ..model.configuration_vaswani import VaswaniConfig
from .checkpoints import LoadedCheckpoint
from .measures import find_roles
from .parts import parameter_tree


MAX_SOURCE_TOKENS, MAX_BEAMS = 100, 8  # in a request
MAX_POSITIONS = 128  # shown on the page

CONFIG = (
    "d_model",
    "d_ff",
    "decoder_d_ff",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "d_k",
    "d_v",
    "vocab_size",
    "decoder_vocab_size",
    "norm_position",
    "decoder_norm_position",
    "final_norm",
    "position_encoding",
    "position_layout",
    "label_smoothing",
    "label_smoothing_type",
    "dropout",
    "attention_dropout",
    "activation_dropout",
    "activation_function",
    "share_embeddings",
    "max_position_embeddings",
)
OPTIMISATION = (  # in the recipe
    "max_steps",
    "batch_tokens",
    "micro_batches",
    "warmup_steps",
    "decay_from",
    "learning_rate_scale",
    "cooldown_steps",
    "optimiser",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "precision",
)
RECORDED = "epochs", "training_pairs", "target_tokens_per_epoch", "hours", "device", "averaged_steps"

# The first sentence on the page.
OPENING = {
    "en": "I cannot read the book because it is too difficult.",
    "de": "Der Mann kaufte das Auto nicht, weil es zu teuer war.",
    "fr": "Le chien n'a pas traversé la rue parce qu'il était trop fatigué.",
}
# The first sentence for a checkpoint that cannot encode `OPENING`.
GREETING = {"en": "Hello!", "de": "Hallo!", "fr": "Bonjour !"}
# Sentences for the paper's Figures 3 to 5: a long-distance dependency, a pronoun, and the structure of a sentence. If
# two words are given, a head of the included checkpoint attends from the first to the second.
EXAMPLES = {
    "en": {
        "long-distance": ("He turned the television in the kitchen off.", ["turned", "off"]),
        "anaphora": ("The woman forgot her bag at the station.", ["her", "woman"]),
        "structure": ("The book that I read yesterday was very interesting.", None),
    },
    "de": {
        "long-distance": ("Das Kind hat gestern in der Schule ein langes Buch gelesen.", ["hat", "gelesen"]),
        "anaphora": ("Die Mutter brachte ihr Kind in den Park.", ["ihr", "Mutter"]),
        "structure": ("Ich habe das Buch gelesen, das du mir gestern gegeben hast.", None),
    },
    "fr": {
        "long-distance": ("Ils ont tous les deux quitté la ville.", ["ont", "quitté"]),
        "anaphora": ("Le roi et sa femme vivent dans une grande maison.", ["sa", "roi"]),
        "structure": ("Le livre que j'ai lu hier était très intéressant.", None),
    },
}
ABOUT = {
    "long-distance": "Figure 3: two words that belong together but are far apart",
    "anaphora": "Figure 4: a pronoun and the noun that it refers to",
    "structure": "Figure 5: a head that follows the structure of the sentence",
}


def model_response(checkpoint: LoadedCheckpoint) -> dict[str, Any]:
    """Describe a checkpoint."""
    model, generation = checkpoint.model, checkpoint.model.generation_config
    source, target = checkpoint.languages
    language = source if source in EXAMPLES else "en"
    return {
        "name": checkpoint.name,
        "source_language": source,
        "target_language": target,
        "example": OPENING[language] if fits(checkpoint, OPENING[language]) else GREETING[language],
        "examples": [
            {"id": name, "text": text, "about": ABOUT[name], "words": words}
            for name, (text, words) in EXAMPLES[language].items()
        ],
        "config": config_response(model.config),
        "parameters": asdict(parameter_tree(model)),
        "training": training_response(checkpoint),
        "trained_length": trained_length(checkpoint),
        "curve": read_json(checkpoint, "curve.json"),
        "generation": {
            "num_beams": generation.num_beams or 1,
            "length_penalty": 1.0 if generation.length_penalty is None else generation.length_penalty,
            "length_penalty_offset": model.penalty_offset(),
            "min_new_tokens": generation.min_new_tokens or 0,
        },
        "confidence": getattr(generation, "confidence", None),
        "limits": {"source_tokens": source_limit(checkpoint), "beams": MAX_BEAMS},
    }


def config_response(config: VaswaniConfig) -> dict[str, Any]:
    response = {name: getattr(config, name) for name in CONFIG}
    for name in ("d_k", "d_v"):
        response[name] = response[name] or config.d_model // config.encoder_attention_heads
    return response


def source_limit(checkpoint: LoadedCheckpoint) -> int:
    longest = checkpoint.model.config.longest_sequence
    return MAX_SOURCE_TOKENS if longest is None else min(MAX_SOURCE_TOKENS, longest)


def trained_length(checkpoint: LoadedCheckpoint) -> int | None:
    """Return the number of tokens in the longest sentences of the training data, if it is recorded."""
    return checkpoint.about.max_length if checkpoint.about else None


def fits(checkpoint: LoadedCheckpoint, text: str) -> bool:
    """Return whether the text is short enough and the vocabulary has all its characters."""
    try:
        return len(checkpoint.tokenizer(text)["input_ids"]) <= source_limit(checkpoint)
    except ValueError:  # a character outside the vocabulary
        return False


def training_response(checkpoint: LoadedCheckpoint) -> dict[str, Any] | None:
    """Return the recorded facts of the training run; None if the checkpoint has no valid training.json."""
    training = read_json(checkpoint, "training.json")
    if not isinstance(training, dict) or not isinstance(training.get("recipe"), dict):
        return None
    recipe = training["recipe"]
    optimisation = recipe.get("optimisation", {})
    cooldown = optimisation.get("cooldown_steps")
    return {
        **{name: optimisation.get(name) for name in OPTIMISATION},
        "schedule": f"equation 3, then a cooldown of {cooldown:,} steps" if cooldown else "equation 3",
        "trained_length": recipe.get("data", {}).get("max_length"),
        "initial": recipe.get("initial"),
        **{name: training.get(name) for name in RECORDED},
        "trained_on": checkpoint.about.trained_on if checkpoint.about else [],
    }


def read_json(checkpoint: LoadedCheckpoint, name: str) -> Any:
    """Read a JSON file of the checkpoint's folder; None if it is missing or invalid."""
    if checkpoint.folder is None:
        return None
    try:
        return json.loads((checkpoint.folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def position_tensors(checkpoint: LoadedCheckpoint) -> dict[str, torch.Tensor]:
    """Return `positions` [P, d_model]: P is 128, or the length of a shorter learned table. Zeros without positions."""
    config, embedding = checkpoint.model.config, checkpoint.model.base_model.encoder.embedding
    length = min(MAX_POSITIONS, config.longest_sequence or MAX_POSITIONS)
    if config.position_encoding == "none":
        return {"positions": torch.zeros(length, config.d_model)}
    with torch.no_grad():
        return {"positions": embedding.encode(torch.arange(length))}


def tensors_file(tensors: dict[str, torch.Tensor]) -> bytes:
    """Serialise tensors in float32 as a safetensors file."""
    # `save` rejects tensors that share memory, hence the copies.
    return save({name: x.detach().float().contiguous().clone() for name, x in tensors.items()})


def run_response(checkpoint: LoadedCheckpoint, run_id: str, request: dict, inspection: Inspection) -> dict[str, Any]:
    """Describe a translation and its search, without the tensors."""
    reader = target_reader(checkpoint.tokenizer)
    return {
        "id": run_id,
        "checkpoint": checkpoint.name,
        "request": request,
        "source": {"text": inspection.text, "tokens": tokens_response(inspection.source)},
        "target": {
            "text": inspection.translation,
            "tokens": tokens_response(inspection.target),
            "outputs": tokens_response(inspection.outputs),
        },
        "log_probs": inspection.log_probs.tolist(),
        "mean_log_probs": inspection.mean_log_probs.tolist(),
        "log_prob": inspection.log_prob,
        "score": inspection.score,
        "alternatives": [alternatives_response(position) for position in inspection.alternatives],
        "search": search_response(checkpoint, reader, inspection),
        "heads": heads_response(checkpoint, inspection),
        "changes": None,
        "timing_ms": inspection.milliseconds,
    }


def alternatives_response(position: list[Alternative]) -> list[dict[str, Any]]:
    return [{"id": a.token.id, "text": a.token.text, "log_prob": a.log_prob} for a in position]


def tokens_response(tokens: list[Token]) -> list[dict[str, Any]]:
    return [asdict(token) for token in tokens]


def search_response(checkpoint: LoadedCheckpoint, reader: TokenReader, inspection: Inspection) -> dict[str, Any]:
    search = inspection.search
    return {
        "beams": search.beams,
        "alpha": search.alpha,
        "offset": search.offset,
        "max_length": search.max_length,
        "steps": [{"candidates": [candidate_response(c, reader) for c in step]} for step in search.steps],
        "finished": [
            {
                "key": hypothesis.key,
                "text": checkpoint.tokenizer.decode(hypothesis.tokens, skip_special_tokens=True),
                "tokens": [token.text for token in reader.tokens(hypothesis.tokens)],
                "log_prob": hypothesis.log_prob,
                "length": len(hypothesis.tokens),
                "score": hypothesis.score,
            }
            for hypothesis in search.finished
        ],
    }


def candidate_response(candidate, reader: TokenReader) -> dict[str, Any]:
    response = asdict(candidate)
    response["id"] = response.pop("token")
    return response | {"text": reader.token(candidate.token).text}


def heads_response(checkpoint: LoadedCheckpoint, inspection: Inspection) -> list[dict[str, Any]]:
    return [
        dict(zip(("stack", "kind", "layer", "head"), role.head, strict=True))
        | {"label": role.label, "measures": role.measures}
        for role in find_roles(inspection, head_names(checkpoint.model))
    ]
