"""Numbers for values that repeat in patterns, as the calls of a training loop do: a checked guess, not a hash."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Guesser:
    """Numbers values; guesses that one of the last two followers of a value follows it again.

    A guess costs one comparison with an example. Values are unchecked input, so an example must be flat: comparing it
    with anything then ends at its own depth.

    Args:
        find: Returns the number of a value the long way, after appending its example to ``examples`` if it is new.
    """

    def __init__(self, find: Callable[[object], int]) -> None:
        self.examples: list[object] = []
        self._find = find
        self._latest: list[int] = []
        self._earlier: list[int] = []
        self._last = 0

    def numbers(self, values: Sequence[object]) -> list[int]:
        """Return the number of each value."""
        if not self._latest:
            self._last = self._look(values[0])
        examples, latest, earlier, last, out = self.examples, self._latest, self._earlier, self._last, []
        for value in values:
            guess = latest[last]
            if value != examples[guess]:
                other = earlier[last]
                earlier[last] = guess
                guess = latest[last] = other if value == examples[other] else self._look(value)
            last = guess
            out.append(guess)
        self._last = last
        return out

    def number(self, value: object) -> int:
        """Return the number of one value."""
        return self.numbers((value,))[0]

    def _look(self, value: object) -> int:
        number = self._find(value)
        while len(self._latest) < len(self.examples):
            self._latest.append(0)
            self._earlier.append(0)
        return number
