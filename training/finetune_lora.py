"""Fine-tunes a LoRA adapter for a checkpoint with peft (`pip install peft`), and says what sacreBLEU it gained.

python -m training.finetune_lora --data domain.tsv --output adapter         # for PeftModel.from_pretrained
python -m training.finetune_lora --data domain.tsv --output merged --merge  # a checkpoint like any other
"""

from collections.abc import Sequence

from vaswani_transformer.command_line import stop, whole_number

from .finetune import make_parser, parse, run


PROJECTIONS = ["qkv_proj", "q_proj", "kv_proj", "out_proj", "fc1", "fc2"]


def main(arguments: Sequence[str] | None = None):
    parser = make_parser("finetune_lora", __doc__, learning_rate=3e-3)
    parser.add_argument("--rank", type=whole_number, default=16)
    parser.add_argument("--merge", action="store_true", help="save the model with the adapter in its weights")
    options = parse(parser, arguments)
    from peft import LoraConfig, TaskType, get_peft_model

    lora = LoraConfig(
        task_type=TaskType.SEQ_2_SEQ_LM,
        r=options.rank,
        lora_alpha=2 * options.rank,
        target_modules=PROJECTIONS,
    )
    try:
        run(
            options,
            adapt=lambda model: get_peft_model(model, lora),
            finish=lambda model: model.merge_and_unload() if options.merge else model,
        )
    except (OSError, ValueError) as error:
        stop(parser, error)


if __name__ == "__main__":
    main()
