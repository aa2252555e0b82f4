"""How alike pictures are by their features: distance of two, Fréchet distance of two sets, and the nearest original."""

import numpy as np
import numpy.typing as npt

from reports.statistics.binary import Numbers

Features = npt.NDArray[np.float32]
"""Shape (dimensions,)."""


def unit(features: Features) -> Features:
    """Return the same direction with length 1; zeros stay zeros."""
    length = float(np.linalg.norm(features))
    return features if length == 0 else np.asarray(features / length, dtype=np.float32)


def distance(a: Features, b: Features) -> float:
    """Euclidean distance. For features of length 1 it is √(2 (1 − cosine)), 0 to 2."""
    return float(np.linalg.norm(a.astype(np.float64) - b))


class Moments:
    """Mean and covariance of the features of a set, of any number of pictures in constant memory."""

    def __init__(self, num_dimensions: int):
        self.num = 0
        self._rows = list[Features]()
        self._sum = np.zeros(num_dimensions)
        self._products: Numbers | None = None

    def add(self, features: Features) -> None:
        self.num += 1
        self._sum += features
        self._rows.append(features)
        if len(self._rows) > len(self._sum):
            self._fold()

    @property
    def mean(self) -> Numbers:
        return self._sum / self.num

    def factor(self) -> Numbers:
        """Return a matrix F of shape (any, dimensions) with FᵀF = the covariance, whose divisor is num − 1."""
        if self._products is None:
            rows = np.stack(self._rows).astype(np.float64) - self.mean
            return np.asarray(rows / np.sqrt(self.num - 1), dtype=np.float64)
        self._fold()
        covariance = (self._products - self.num * np.outer(self.mean, self.mean)) / (self.num - 1)
        values, vectors = np.linalg.eigh(covariance)
        return np.asarray(np.sqrt(np.clip(values, 0, None))[:, None] * vectors.T, dtype=np.float64)

    def _fold(self) -> None:
        if self._rows:
            rows = np.stack(self._rows).astype(np.float64)
            self._products = rows.T @ rows + (0 if self._products is None else self._products)
            self._rows.clear()


def frechet_distance(a: Moments, b: Moments) -> float | None:
    """Squared Fréchet distance of two Gaussians: ‖m − n‖² + tr(A + B − 2 (A B)^½); None with fewer than two pictures.

    Source: Heusel et al., "GANs trained by a two time-scale update rule", 2017, where it is called FID and is computed
    on other features, so that figures of papers are not comparable with it. It falls with the number of pictures, so
    that only sets of the same size can be compared.
    """
    if min(a.num, b.num) < 2:
        return None
    f, g = a.factor(), b.factor()
    # The eigenvalues of A B = FᵀF GᵀG are the squared singular values of F Gᵀ.
    trace_of_root = np.linalg.svd(f @ g.T, compute_uv=False).sum()
    return max(0.0, float(np.sum((a.mean - b.mean) ** 2) + np.sum(f**2) + np.sum(g**2) - 2 * trace_of_root))


def nearest(changed: npt.NDArray[np.float32], originals: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return whether each changed picture is nearer to its own original than to any other; shapes (n, dimensions) ->
    (n,).

    A tie counts as not nearer. Of n = 1 it says nothing and is True.
    """
    products = changed.astype(np.float64) @ originals.astype(np.float64).T
    squares = np.sum(originals.astype(np.float64) ** 2, axis=1) - 2 * products
    own = np.diagonal(squares).copy()
    np.fill_diagonal(squares, np.inf)
    return np.asarray(own < squares.min(axis=1, initial=np.inf), dtype=np.bool_)
