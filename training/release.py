"""Makes the checkpoint that is released of a finished run, and its card of recorded facts.

python -m training.release weights RUN CHECKPOINT    # half-precision weights, tokenizer, code
python -m training.evaluate CHECKPOINT --recipe RECIPE --data DATA --output CARD/scores.json
python -m training.release card CHECKPOINT CARD      # README.md in both, about.json in the checkpoint
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from huggingface_hub import EvalResult, ModelCard, ModelCardData
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from vaswani_transformer import VaswaniForConditionalGeneration
from vaswani_transformer.generation_vaswani import paper_generation_config

from .train import whole_folder


TEMPLATE = Path(__file__).with_name("card_template.md")


def release_weights(run: Path, checkpoint: Path):
    """The run's averaged model with its weights in half precision, which load as float32."""
    model = VaswaniForConditionalGeneration.from_pretrained(run / "model")
    config = model.config
    ids = {name: getattr(config, name) for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id")}
    model.generation_config = paper_generation_config(**ids)
    with whole_folder(checkpoint) as folder:
        model.to(torch.float16).save_pretrained(folder)
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        settings["dtype"] = "float32"  # half precision is for the file's size; products in it are slow on processors
        (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        tokenizer = AutoTokenizer.from_pretrained(run / "model")
        tokenizer.save_pretrained(folder)
        shutil.copy(run / "model" / "training.json", folder)


def write_card(checkpoint: Path, card_folder: Path):
    """Card and about.json from what training and evaluation recorded."""
    training = json.loads((checkpoint / "training.json").read_text(encoding="utf-8"))
    scores = json.loads((card_folder / "scores.json").read_text(encoding="utf-8"))
    recipe = training["recipe"]
    model = AutoModelForSeq2SeqLM.from_pretrained(checkpoint, device_map="meta")
    parameters = sum(p.numel() for p in model.parameters())
    size = sum(file.stat().st_size for file in checkpoint.iterdir())
    metrics = ("sacreBLEU", "chrF")

    about = {
        "name": recipe["name"],
        "source_language": recipe["source_language"],
        "target_language": recipe["target_language"],
        "parameters": parameters,
        "bytes": size,
        "licence": recipe["licence"],
        "notice": recipe["notice"],
        "trained_on": [f"{s['name']} ({s['licence']})" for s in recipe["data"]["train"]],
        "max_length": recipe["data"]["max_length"],
        "scores": [
            {"dataset": r["dataset"], "metric": metric, **r[metric]} for r in scores["results"] for metric in metrics
        ],
    }
    (checkpoint / "about.json").write_text(json.dumps(about, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    card = ModelCard.from_template(
        ModelCardData(
            language=[recipe["source_language"], recipe["target_language"]],
            license=recipe["licence"],
            library_name="transformers",
            pipeline_tag="translation",
            metrics=["sacrebleu", "chrf"],
            tags=["vaswani", "attention-is-all-you-need"],
            model_name=recipe["name"],
            eval_results=[
                EvalResult(
                    task_type="translation",
                    dataset_type=r["dataset"],
                    dataset_name=r["dataset"],
                    metric_type="sacrebleu",
                    metric_name="sacreBLEU",
                    metric_value=r["sacreBLEU"]["value"],
                )
                for r in scores["results"]
            ],
        ),
        template_path=str(TEMPLATE),
        training=training,
        recipe=recipe,
        scores=scores,
        metrics=metrics,
        parameters=parameters,
        size=size,
        config=model.config,
    )
    for folder in (card_folder, checkpoint):
        (folder / "README.md").write_text(str(card).rstrip() + "\n", encoding="utf-8")
    shutil.copy(checkpoint / "training.json", card_folder)


def main():
    parser = argparse.ArgumentParser(
        prog="python -m training.release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    weights = commands.add_parser("weights", help="RUN/model -> CHECKPOINT")
    weights.add_argument("run", type=Path)
    weights.add_argument("checkpoint", type=Path)
    card = commands.add_parser("card", help="recorded facts -> README.md and about.json")
    card.add_argument("checkpoint", type=Path)
    card.add_argument("card", type=Path, help="the folder that holds scores.json")
    arguments = parser.parse_args()
    if arguments.command == "weights":
        release_weights(arguments.run, arguments.checkpoint)
    else:
        write_card(arguments.checkpoint, arguments.card)


if __name__ == "__main__":
    main()
