"""Translations in two steps: through a pivot language, where no model translates directly."""

from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from .queue import Pair, Queue, Translations, set_result


def submit(
    queue: Queue,
    route: Sequence[Pair],
    texts: Sequence[str],
    settings: Mapping[str, Hashable],
    last_settings: Mapping[str, Hashable] | None = None,
) -> Future[Translations]:
    """Puts texts into the queue, and for a route of two pairs their translations, too.

    Args:
        queue: The queue.
        route: One or two pairs of languages.
        texts: The texts.
        settings: The settings of each step.
        last_settings: Further settings of the last step, such as the number of translations.

    Returns:
        The translations of the last step, with the warnings of both. Cancelling them cancels the step in progress.

    Raises:
        Busy: the queue is full or closed.
    """
    last_settings = {**settings, **(last_settings or {})}
    pair, *further = route
    if not further:
        return queue.submit(pair, texts, **last_settings)
    result: Future[Translations] = Future()
    steps = [queue.submit(pair, texts, **settings)]

    def start_last(first: Future[Translations]):
        if first.cancelled():
            return
        try:
            records = [best for best, *_ in first.result()]
            pivot_texts = [record["translation_text"] for record in records]
            last = queue.submit(further[0], pivot_texts, is_continued=True, **last_settings)
        except Exception as error:
            set_result(result, error)
            return
        steps.append(last)
        last.add_done_callback(lambda last: finish(last, records))
        if result.cancelled():
            last.cancel()

    def finish(last: Future[Translations], earlier: list[dict[str, Any]]):
        if last.cancelled():
            return
        error = last.exception()
        set_result(result, error or [join(*step) for step in zip(earlier, last.result(), strict=True)])

    result.add_done_callback(lambda result: steps[-1].cancel() if result.cancelled() else None)
    steps[0].add_done_callback(start_last)
    return result


def join(earlier: dict[str, Any], records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Adds the warnings and the confidence of the first step to the best record of the last one."""
    best, *rest = records
    if "word_confidences" in best:  # how likely a word is right if its source is
        factor = earlier["confidence"]
        words = [(span, factor * value) for span, value in best["word_confidences"]]
        best |= {"confidence": factor * best["confidence"], "word_confidences": words}
    warnings = [*earlier.get("warnings", []), *best.get("warnings", [])]
    return [best | ({"warnings": warnings} if warnings else {}), *rest]
