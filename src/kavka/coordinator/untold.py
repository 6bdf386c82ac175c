"""Members that may not know yet what they shall have: soft state, which dies with the shard.

Kafka tells a member once. But a client may have given up on the very answer that said so without asking for everything
anew, and nobody would have what it was told of.
"""

from __future__ import annotations


class Untold:
    """Who is told until it says that it has what it shall have, or is at another epoch and so has heard an answer."""

    __slots__ = ("_at", "_heard")

    def __init__(self) -> None:
        self._at: dict[tuple[str, str], int] = {}
        self._heard: set[tuple[str, str]] = set()

    def __contains__(self, who: tuple[str, str]) -> bool:
        return who in self._at

    def is_to_be_told(
        self, group_id: str, member_id: str, epoch: int, *, news: bool, has: bool, lacks: bool | None = None
    ) -> bool:
        """Whether a member that asks at an epoch must hear it: there is news, or it did not hear the last.

        `lacks` is for members that say what they have and are not answered for that alone: whether they said something
        else. The first time that such a member is heard here, nobody knows what the coordinator before has told it.
        """
        who = (group_id, member_id)
        told_at = self._at.get(who)
        if news or (lacks and who not in self._heard):
            self._at[who] = epoch
        elif told_at is not None and (epoch != told_at or has):
            del self._at[who]
        if lacks is not None:
            self._heard.add(who)
        return who in self._at

    def forget(self, group_id: str, member_id: str) -> None:
        """A member is gone."""
        self._at.pop((group_id, member_id), None)
        self._heard.discard((group_id, member_id))
