"""What the explorer's answers hold, from what inspection gives. Everything here can be written as JSON."""

import json
from dataclasses import asdict
from typing import Any

import torch
from safetensors.torch import save

from ..inspection.heads import head_names
from ..inspection.inspection import Inspection
from ..inspection.readable import Reader, Token, read_target
from ..model.configuration_vaswani import VaswaniConfig
from .measures import roles_of
from .opened import Opened
from .parts import parameter_tree


SOURCE_TOKENS, BEAMS = 100, 8  # what a request may ask for
POSITIONS = 128  # that are shown

CONFIG = (
    "d_model", "d_ff", "decoder_d_ff", "encoder_layers", "decoder_layers", "encoder_attention_heads",
    "decoder_attention_heads", "d_k", "d_v", "vocab_size", "decoder_vocab_size", "norm_position",
    "decoder_norm_position", "position_encoding", "position_layout", "label_smoothing", "label_smoothing_type",
    "dropout", "attention_dropout", "activation_dropout", "activation_function", "share_embeddings",
    "max_position_embeddings",
)  # fmt: skip

# The sentence that the page opens with, and sentences that show what the paper's Figures 3 to 5 show: a long-distance
# dependency, what a pronoun refers to, and the structure of a sentence. Where two words are given, attention should
# lead from the first to the second; in these sentences a head of a shipped checkpoint does lead there.
OPENING = {
    "en": "The dog did not cross the street because it was too tired.",
    "de": "Der Hund ging nicht über die Straße, weil er zu müde war.",
    "fr": "Le chien n'a pas traversé la rue parce qu'il était trop fatigué.",
}
GREETING = {"en": "Hello!", "de": "Hallo!", "fr": "Bonjour !"}  # where learned positions end before that sentence does
EXAMPLES = {
    "en": {
        "long-distance": ("He took the old coat that he had bought in London off.", ["took", "off"]),
        "anaphora": ("The mother took her child to the park.", ["her", "mother"]),
        "structure": ("The law will never be perfect, but its application should be just.", None),
    },
    "de": {
        "long-distance": ("Das Kind hat gestern in der Schule ein langes Buch gelesen.", ["hat", "gelesen"]),
        "anaphora": ("Die Mutter brachte ihr Kind in den Park.", ["ihr", "Mutter"]),
        "structure": ("Das Gesetz wird nie vollkommen sein, aber seine Anwendung sollte gerecht sein.", None),
    },
    "fr": {
        "long-distance": ("Je n'ai dans toute ma vie jamais vu une chose pareille.", ["n'ai", "jamais"]),
        "anaphora": ("La mère a emmené son enfant au parc.", ["son", "mère"]),
        "structure": ("La loi ne sera jamais parfaite, mais son application doit être juste.", None),
    },
}
ABOUT = {
    "long-distance": "Figure 3: words that belong together, far from each other",
    "anaphora": "Figure 4: the word that a pronoun stands for",
    "structure": "Figure 5: heads that follow the structure of the sentence",
}


def model_answer(opened: Opened, live: bool = True) -> dict[str, Any]:
    """Everything about a checkpoint that does not depend on a sentence."""
    model, generation = opened.model, opened.model.generation_config
    source, target = opened.languages
    language = source if source in EXAMPLES else "en"
    return {
        "name": opened.name,
        "source_language": source,
        "target_language": target,
        "example": OPENING[language] if fits(opened, OPENING[language]) else GREETING[language],
        "examples": [
            {"id": name, "text": text, "about": ABOUT[name], "words": words}
            for name, (text, words) in EXAMPLES[language].items()
        ],
        "config": config_answer(model.config),
        "parameters": asdict(parameter_tree(model)),
        "training": training_answer(opened),
        "curve": read_json(opened, "curve.json"),
        "generation": {
            "num_beams": generation.num_beams or 1,
            "length_penalty": 1.0 if generation.length_penalty is None else generation.length_penalty,
            "length_penalty_offset": model.penalty_offset(),
        },
        "limits": {"source_tokens": source_limit(opened), "beams": BEAMS},
        "live": live,
    }


def config_answer(config: VaswaniConfig) -> dict[str, Any]:
    answer = {name: getattr(config, name) for name in CONFIG}
    for name in ("d_k", "d_v"):
        answer[name] = answer[name] or config.d_model // config.encoder_attention_heads
    return answer


def source_limit(opened: Opened) -> int:
    longest = opened.model.config.longest_sequence
    return SOURCE_TOKENS if longest is None else min(SOURCE_TOKENS, longest)


def fits(opened: Opened, text: str) -> bool:
    """Whether the checkpoint can write a text, and the page show it."""
    try:
        return len(opened.tokenizer(text)["input_ids"]) <= source_limit(opened)
    except ValueError:  # a character that is not in its vocabulary
        return False


def training_answer(opened: Opened) -> dict[str, Any] | None:
    """The recorded facts of a training run, or None where there are none."""
    training = read_json(opened, "training.json")
    if not isinstance(training, dict) or not isinstance(training.get("recipe"), dict):
        return None
    recipe = training["recipe"]
    optimisation = recipe.get("optimisation", {})
    cooldown = optimisation.get("cooldown_steps")
    wanted = (
        "max_steps", "batch_tokens", "micro_batches", "warmup_steps", "decay_from", "learning_rate_scale",
        "cooldown_steps", "optimiser", "adam_beta1", "adam_beta2", "adam_epsilon", "precision",
    )  # fmt: skip
    facts = {name: optimisation.get(name) for name in wanted}
    recorded = ("epochs", "training_pairs", "target_tokens_per_epoch", "hours", "device", "averaged_steps")
    return {
        **facts,
        "schedule": f"equation 3, then {cooldown:,} steps down to 0" if cooldown else "equation 3",
        "trained_length": recipe.get("data", {}).get("max_length"),
        "initial": recipe.get("initial"),
        **{name: training.get(name) for name in recorded},
        "trained_on": opened.about.trained_on if opened.about else [],
    }


def read_json(opened: Opened, name: str) -> Any:
    """A file of the checkpoint's folder, or None where it is not there or not JSON."""
    if opened.folder is None:
        return None
    try:
        return json.loads((opened.folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def position_tensors(opened: Opened) -> dict[str, torch.Tensor]:
    """`positions` [128, D], or fewer where a learned table ends; zeros where the model has none."""
    config, embedding = opened.model.config, opened.model.base_model.encoder.embedding
    length = min(POSITIONS, config.longest_sequence or POSITIONS)
    if config.position_encoding == "none":
        return {"positions": torch.zeros(length, config.d_model)}
    with torch.no_grad():
        return {"positions": embedding.encode(torch.arange(length))}


def tensors_file(tensors: dict[str, torch.Tensor]) -> bytes:
    """The safetensors file of some tensors; each has memory of its own in it."""
    return save({name: x.detach().float().contiguous().clone() for name, x in tensors.items()})


def run_answer(opened: Opened, run_id: str, request: dict, inspection: Inspection) -> dict[str, Any]:
    """One translation and how it came about, without its tensors."""
    reader = read_target(opened.tokenizer)
    return {
        "id": run_id,
        "checkpoint": opened.name,
        "request": request,
        "source": {"text": inspection.text, "tokens": tokens_answer(inspection.source)},
        "target": {
            "text": inspection.translation,
            "tokens": tokens_answer(inspection.target),
            "outputs": tokens_answer(inspection.outputs),
        },
        "log_probs": inspection.log_probs.tolist(),
        "mean_log_probs": inspection.mean_log_probs.tolist(),
        "log_prob": inspection.log_prob,
        "score": inspection.score,
        "alternatives": [
            [{"id": a.token.id, "text": a.token.text, "log_prob": a.log_prob} for a in position]
            for position in inspection.alternatives
        ],
        "search": search_answer(opened, reader, inspection),
        "heads": heads_answer(opened, inspection),
        "changes": None,
        "timing_ms": inspection.milliseconds,
    }


def tokens_answer(tokens: list[Token]) -> list[dict[str, Any]]:
    return [asdict(token) for token in tokens]


def search_answer(opened: Opened, reader: Reader, inspection: Inspection) -> dict[str, Any]:
    search = inspection.search
    return {
        "beams": search.beams,
        "alpha": search.alpha,
        "offset": search.offset,
        "max_length": search.max_length,
        "steps": [{"candidates": [candidate_answer(c, reader) for c in step]} for step in search.steps],
        "finished": [
            {
                "key": one.key,
                "text": opened.tokenizer.decode(one.tokens, skip_special_tokens=True),
                "tokens": [token.text for token in reader.tokens(one.tokens)],
                "log_prob": one.log_prob,
                "length": len(one.tokens),
                "score": one.score,
            }
            for one in search.finished
        ],
    }


def candidate_answer(candidate, reader: Reader) -> dict[str, Any]:
    answer = asdict(candidate)
    answer["id"] = answer.pop("token")
    return answer | {"text": reader.token(candidate.token).text}


def heads_answer(opened: Opened, inspection: Inspection) -> list[dict[str, Any]]:
    return [
        dict(zip(("stack", "kind", "layer", "head"), role.head, strict=True))
        | {"label": role.label, "measures": role.measures}
        for role in roles_of(inspection, head_names(opened.model))
    ]
