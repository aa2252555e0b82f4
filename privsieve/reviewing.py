"""The review page of a run, for the length of a `with` block."""

from collections.abc import Iterator
from contextlib import contextmanager

from jobs.serving.local_server import LocalServer
from jobs.serving.review.progress import ReviewPage
from jobs.serving.review.reviewing import ReviewRequest, ReviewResult, result_of, serving


class Review:
    """The page of a review, while its `with` block lasts."""

    def __init__(self, server: LocalServer[ReviewPage]):
        self._server = server

    @property
    def address(self) -> str:
        """Return the address to open in a browser of this machine. It holds a token, with which anyone can answer."""
        return self._server.address

    def result(self) -> ReviewResult:
        """Return what everybody has answered until now."""
        return result_of(self._server.page)


@contextmanager
def reviewing(request: ReviewRequest) -> Iterator[Review]:
    """Serve the review page of a run for the length of a `with` block.

    PrivsieveError.

        with privsieve.review("my-run", reviewer="ana") as page:
            print(page.address)
            input("Enter ends the review")
        privsieve.audit_apply("my-run", "my-run/reviews")
    """
    with serving(request) as server, server.in_background():
        yield Review(server)
