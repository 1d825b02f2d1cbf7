"""People's answers: added to the prompt of the agent's next turn, and posted to the tracker in the background."""

from __future__ import annotations

from ..core.events import EffectPlanned
from ..core.schedule import Schedule
from ..protocol.marked_text import fenced, harmless
from .context import Context
from .effects import deliver
from .tracker_limit import Patience
from .write_queue import WriteQueue

HEADING = "A person answered your question:"
SEVERAL = "People answered your question; each of their answers follows, the oldest first:"


def with_answers(news: str, schedule: Schedule, run_id: str, turn: int) -> str:
    """What is added to the prompt of this turn: the source's news, then people's answers."""
    answers = schedule.answers_told(run_id, turn)
    if not answers:
        return news
    heading = HEADING if len(answers) == 1 else SEVERAL
    blocks = [fenced("answer", harmless(answer.text)) for answer in answers]
    return "\n\n".join([*filter(None, [news]), heading, *blocks])


class AnswerComments(WriteQueue):
    """Posts the comments with answers. One that fails is a warning: the agent gets the answer all the same."""

    patience = 2.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        # These may have been made before a crash.
        self._begun = {effect.effect_id for effect in self._waiting}

    def wants(self, effect: EffectPlanned) -> bool:
        return effect.verb == "comment" and not effect.run_id

    async def write(self, effect: EffectPlanned) -> None:
        context, again = self._context, effect.effect_id in self._begun
        while True:
            source, patience = context.source, Patience(context.limit, waits=True)
            delivery = await deliver(effect, source, context.clock.now, again=again, patience=patience)
            if delivery.ok or source is context.source:
                break
            again = True  # the workflow changed meanwhile, and the tracker it had was closed
        context.ledger.post(delivery.done)

    def left(self, count: int) -> str:
        answers = "answer is" if count == 1 else "answers are"
        return f"{count} {answers} not in the tracker yet: the next start posts the rest"
