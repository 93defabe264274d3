"""Tables that say which tensor of another toolkit is which of ours, and read in both directions.

A table is text, one row for a module or a tensor: our name, then the other toolkit's.

    model.encoder.layers.{e}.self_attn.qkv_proj    encoder.layers.{e}.self_attn.{q,k,v}_proj
    model.encoder.layers.{e}.feed_forward.fc1      encoder_l{e+1}_ffn_W1.T

- `{e}` and `{d}` count the layers of the encoder and of the decoder, from 0; `{e+1}` counts from 1.
- `{q,k,v}` stands for three names, `{0-15}` for sixteen. What several names of one side hold, joined along the first
  axis, is what the names of the other side hold together.
- `.T` at the end: the other toolkit's matrices are [in, out].
- A row of modules stands for their parameters: `weight` and `bias`, or what the toolkit calls them.
"""

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from vaswani_transformer import VaswaniConfig, VaswaniForConditionalGeneration

from .core import ConversionError


@dataclass(frozen=True)
class Rule:
    """Our tensors, joined along the first axis, are theirs, each transposed where `transposed`, joined likewise."""

    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    transposed: bool = False


class Table:
    """A mapping table; see the module.

    `parameters` names what the other toolkit calls a module's `weight` and `bias`; `ignored` are patterns (regular
    expressions) of the tensors that hold nothing to convert, such as tables that are computed anew.
    """

    def __init__(self, text: str, parameters: tuple[str, str] = ("weight", "bias"), ignored: Iterable[str] = ()):
        self.rows = [line.split() for line in text.strip().splitlines() if line.strip()]
        if wrong := [row for row in self.rows if len(row) != 2]:
            raise ValueError(f"A row of a table has two names: {wrong}")
        self.parameters = parameters
        self.ignored = re.compile("|".join(ignored)) if ignored else None

    def rules(self, config: VaswaniConfig) -> list[Rule]:
        """The rows, once for each layer and parameter that a model of `config` has."""
        layers = {"e": config.encoder_layers, "d": config.decoder_layers}
        shapes = our_shapes(config)
        rules = []
        for ours, theirs in self.rows:
            stack = next((name for name in layers if f"{{{name}}}" in ours), None)
            for number in range(layers[stack]) if stack else [0]:
                rules += self._row(numbered(ours, stack, number), numbered(theirs, stack, number), shapes)
        return rules

    def _row(self, ours: str, theirs: str, shapes: Mapping[str, torch.Size]) -> Iterable[Rule]:
        transposed = theirs.endswith(".T")
        ours, theirs = expanded(ours), expanded(theirs.removesuffix(".T"))
        if any(name in shapes for name in ours):  # a row of tensors
            yield Rule(tuple(ours), tuple(theirs), transposed)
            return
        for parameter, name in zip(("weight", "bias"), self.parameters, strict=True):
            rule = Rule(
                tuple(f"{module}.{parameter}" for module in ours),
                tuple(f"{module}.{name}" for module in theirs),
                transposed and parameter == "weight",
            )
            if all(tensor in shapes for tensor in rule.ours):
                yield rule

    def read(self, tensors: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
        """Their tensors -> ours, in float32.

        Raises:
            ConversionError: tensors are missing, left over, or of another shape than `config` says; all are named.
        """
        if (layers := max(config.encoder_layers, config.decoder_layers)) > len(tensors):  # before any is built
            raise ConversionError(f"The options say {layers} layers, and there are {len(tensors)} tensors in all.")
        shapes, ours, used, problems = our_shapes(config), {}, set(), []
        for rule in self.rules(config):
            if missing := [name for name in rule.theirs if name not in tensors]:
                problems += [f"{name} is missing" for name in missing]
                continue
            used.update(rule.theirs)
            if whole_numbers := [name for name in rule.theirs if not tensors[name].is_floating_point()]:
                problems += [
                    f"{name} is of {tensors[name].dtype}, not of floating-point numbers" for name in whole_numbers
                ]
                continue
            parts = [tensors[name].float() for name in rule.theirs]
            wanted = [shapes[name] for name in rule.ours]
            try:
                whole = torch.cat([part.mT if rule.transposed else part for part in parts])
            except RuntimeError:  # they do not even fit each other
                whole = torch.empty(0)
            if len(wanted[0]) == 1:  # Marian's vectors are [1, n]
                whole = whole.flatten()
            if whole.shape != (sum(shape[0] for shape in wanted), *wanted[0][1:]):
                found = " + ".join(str(list(tensors[name].shape)) for name in rule.theirs)
                problems.append(f"{', '.join(rule.theirs)}: {found} does not fit {[list(shape) for shape in wanted]}")
                continue
            ours.update(zip(rule.ours, whole.split([shape[0] for shape in wanted]), strict=True))
        problems += [
            f"{name} has no place"
            for name in tensors
            if name not in used and not (self.ignored and self.ignored.fullmatch(name))
        ]
        if not problems:
            problems = [f"nothing gives {name}" for name in shapes if name not in ours]
        if problems:
            raise ConversionError.of("The tensors are not those of the model that the options describe", problems)
        return {name: tensor.contiguous() for name, tensor in ours.items()}

    def write(self, ours: Mapping[str, torch.Tensor], config: VaswaniConfig) -> dict[str, torch.Tensor]:
        """Our tensors -> theirs: `read` backwards. What several names hold together is divided evenly."""
        theirs = {}
        for rule in self.rules(config):
            whole = torch.cat([ours[name] for name in rule.ours])
            for name, part in zip(rule.theirs, whole.chunk(len(rule.theirs)), strict=True):
                theirs[name] = (part.T if rule.transposed else part).contiguous()
        return theirs


def our_shapes(config: VaswaniConfig) -> dict[str, torch.Size]:
    """Every name in our state dict, tied ones included, and its shape; a shared matrix goes by its users' names.

    Raises:
        ConversionError: the sizes are beyond what a tensor can have.
    """
    try:
        with torch.device("meta"):
            model = VaswaniForConditionalGeneration(config)
    except RuntimeError as error:
        raise ConversionError(f"The options are of no possible model: {error}") from None
    return {name: tensor.shape for name, tensor in model.state_dict().items() if name != "model.shared.weight"}


def numbered(name: str, stack: str | None, number: int) -> str:
    """`{e}` and `{e+1}` as numbers."""
    if stack is None:
        return name
    return name.replace(f"{{{stack}}}", str(number)).replace(f"{{{stack}+1}}", str(number + 1))


def expanded(name: str) -> list[str]:
    """`{q,k,v}_proj` -> q_proj, k_proj, v_proj; `weights_{0-15}` -> weights_0 ... weights_15."""
    parts = re.split(r"(\{[^}]*\})", name)
    choices = [[part] for part in parts]
    for i, part in enumerate(parts):
        if part.startswith("{"):
            first, dash, last = part[1:-1].partition("-")
            choices[i] = [str(n) for n in range(int(first), int(last) + 1)] if dash else part[1:-1].split(",")
    return ["".join(choice) for choice in itertools.product(*choices)]
