"""attachment_numbers: each attachment has its own number."""

from __future__ import annotations

from exporter.kernel.attachment_numbers import AttachmentNumbers


class TestNumbers:
    """1 to 255: eight bits, and 0 means none."""

    def test_every_number_is_taken_once(self) -> None:
        """Then none is left."""
        numbers = AttachmentNumbers()

        assert [numbers.take({}) for _ in range(257)] == [*range(1, 256), 0, 0]

    def test_released_number_is_reused_last(self) -> None:
        """A call of the old attachment may still be open."""
        numbers = AttachmentNumbers()
        numbers.give_back(numbers.take({}), {})

        assert [numbers.take({}) for _ in range(256)] == [*range(2, 256), 1, 0]

    def test_attachment_without_a_number_releases_none(self) -> None:
        numbers = AttachmentNumbers()
        for _ in range(255):
            numbers.take({})
        numbers.give_back(0, {})

        assert numbers.take({}) == 0
