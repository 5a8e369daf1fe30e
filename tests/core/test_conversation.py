"""The conversation with a commissioner without a connection: the messages of a round, and the events that follow."""

from __future__ import annotations

import json

import pytest
from support.simulated import episode_row, tournament_rules

from coworld_core.commissioner.messages import CommissionerMessage, read_commissioner_message
from coworld_core.episode.record import SlotRow
from coworld_core.errors import CommissionerError
from coworld_core.evaluation.designs import episode_key
from coworld_core.tournament import LogEvent, Tournament
from coworld_core.tournament.commissions import Commission
from coworld_core.tournament.conversation import Ask, Conversation
from coworld_core.tournament.pairings import commissioner
from coworld_core.tournament.tournament_log import EntrantAdded, EpisodeEnded
from paintarena.commissioner import Conversation as Respondent

RULES = tournament_rules(pairing="commissioner", max_blocks=100)
NAMES = ("first", "second")


class Kept:
    """A tournament and its log in memory, with a commissioner that can leave."""

    def __init__(self, *events: LogEvent) -> None:
        self.tournament = Tournament(RULES, commissioner)
        self.log: list[LogEvent] = []
        self.sent: list[str] = []
        self.gone = False
        self.happen(*(events or [EntrantAdded(name=name, player=SlotRow(name=name)) for name in NAMES]))
        commission = Commission(self.tournament, {})
        self.conversation = Conversation(self, commission, "its name", publish=lambda _: None)
        self._respondent, self._said = Respondent(), list[CommissionerMessage]()

    def happen(self, *events: LogEvent) -> None:
        for event in events:
            self.tournament.apply(event)
            self.log.append(event)

    def step(self) -> bool:
        step = self.conversation.step()
        try:
            turn = next(step)
            while True:
                if self.gone:
                    step.throw(CommissionerError("It left.", code="commissioner_gone"))
                if turn == "open":
                    self._respondent, self._said = Respondent(), []
                if not isinstance(turn, str):
                    message = turn.request if isinstance(turn, Ask) else turn
                    self.sent.append(message.type)
                    answers = self._respondent.answer(json.loads(message.model_dump_json()))
                    self._said += [read_commissioner_message(json.dumps(answer)) for answer in answers]
                turn = step.send(self._said.pop(0) if isinstance(turn, Ask) or turn == "hear" else None)
        except StopIteration as end:
            return end.value

    def play(self, count: int) -> None:
        """Play scheduled blocks; the first slot wins."""
        for _ in range(count):
            key = episode_key(self.tournament.history.over + 1, 1, 1)
            self.happen(EpisodeEnded(row=episode_row(key, 1.0, 0.0)))

    def until(self, kind: str) -> None:
        while self.log[-1].kind != kind:
            assert self.step()


def test_round_is_decided_and_continued_from_the_log_alone() -> None:
    store = Kept()
    store.until("round_scheduled")
    assert [event.kind for event in store.log[2:]] == ["league_set", "rounds_due", "round_scheduled"]
    store.play(1)
    # Another process has only the log: it starts the round again, and the first game is not played again
    other = Kept(*store.log)
    while not other.conversation.waits:
        other.step()
    assert other.log == store.log
    other.play(1)
    other.until("round_decided")
    assert other.sent == ["round_start", "episodes_accepted", "episode_result", "episode_result"]
    assert Kept(*other.log).tournament.report() == other.tournament.report()


def test_round_is_dropped_when_the_commissioner_has_left() -> None:
    store = Kept()
    store.until("round_scheduled")
    store.gone = True
    with pytest.raises(CommissionerError, match=r"It left\."):
        store.step()
    assert (store.log[-1].kind, store.conversation.in_round) == ("round_dropped", False)
