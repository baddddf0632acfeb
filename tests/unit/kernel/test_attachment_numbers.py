"""attachment_numbers: one number, one attachment."""

from __future__ import annotations

from exporter.kernel.attachment_numbers import AttachmentNumbers


class TestNumbers:
    """1 to 255: what eight bits hold, less the one that says there is none."""

    def test_all_are_given_once(self) -> None:
        """Then there is none left."""
        numbers = AttachmentNumbers()

        assert [numbers.take({}) for _ in range(257)] == [*range(1, 256), 0, 0]

    def test_a_number_that_was_given_back_is_the_last_to_be_given_again(self) -> None:
        """A call that began through the old attachment may still be open."""
        numbers = AttachmentNumbers()
        numbers.give_back(numbers.take({}), {})

        assert [numbers.take({}) for _ in range(256)] == [*range(2, 256), 1, 0]

    def test_none_is_not_given_back(self) -> None:
        """An attachment without a number leaves none."""
        numbers = AttachmentNumbers()
        for _ in range(255):
            numbers.take({})
        numbers.give_back(0, {})

        assert numbers.take({}) == 0
