"""Writes model cards: the README.md of a checkpoint that was trained with this package or converted to it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData


TEMPLATE = Path(__file__).with_name("card_template.md")
HUB_ID = "PATH OR HUB ID OF THIS MODEL"  # in every card until publishing replaces it with the repository's id


def render_card(metadata: ModelCardData, template: Path = TEMPLATE, **facts: Any) -> str:
    """Renders a card. `facts` are the variables of the template. Needs jinja2."""
    card = ModelCard.from_template(metadata, template_path=str(template), hub_id=HUB_ID, cell=table_cell, **facts)
    # Conditions in the template leave blank lines.
    return re.sub(r"\n{3,}", "\n\n", str(card)).rstrip() + "\n"


def card_metadata(
    name: str,
    languages: Iterable[str | None],
    licence: str,
    metrics: Iterable[str] = (),
    scores: Iterable[Mapping[str, Any]] = (),
    tags: Iterable[str] = (),
) -> ModelCardData:
    """Returns the front matter of a card, which the Hub reads. Each score has a "dataset", a "metric" and a "value"."""
    results = [
        EvalResult(
            task_type="translation",
            dataset_type=score["dataset"],
            dataset_name=score["dataset"],
            metric_type=score["metric"].lower(),
            metric_name=score["metric"],
            metric_value=score["value"],
        )
        for score in scores
    ]
    return ModelCardData(
        language=[language for language in languages if language] or None,
        license=licence,
        library_name="transformers",
        pipeline_tag="translation",
        metrics=list(metrics) or None,
        tags=["vaswani", "attention-is-all-you-need", *tags],
        model_name=name if results else None,
        eval_results=results or None,
    )


def table_cell(text: object) -> str:
    """Formats a text as a cell of a Markdown table, with special characters escaped."""
    text = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"[\\|*`\[\]]|\b_|_\b", r"\\\g<0>", text)
