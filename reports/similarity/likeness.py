"""How alike pictures are, pixel by pixel (MSE, PSNR, SSIM) and by their features (distances, nearest original).

Figures of pixels expect 8-bit pictures of the same shape. They do not say whether a person would recognise the content:
a shift of a few pixels changes these figures a lot, but not what a person sees. Features are closer to that.
"""

import numpy as np
import numpy.typing as npt

PicturePixels = npt.NDArray[np.uint8]
"""Shape (height, width, 3), dtype uint8."""

PEAK = 255.0
"""The largest value of a pixel."""

WINDOW_PX = 11
"""Side of SSIM's window."""

_SIGMA_PX = 1.5
_C1, _C2 = (0.01 * PEAK) ** 2, (0.03 * PEAK) ** 2


def mean_squared_error(a: PicturePixels, b: PicturePixels) -> float:
    """Return the mean squared difference over all pixels and channels, 0 to 65,025."""
    return float(np.mean((a.astype(np.float64) - b) ** 2))


def psnr(mse: float) -> float | None:
    """Return the peak signal-to-noise ratio in dB, 20 log10(255 / √MSE); None for equal pictures: it is infinite."""
    return None if mse == 0 else float(20 * np.log10(PEAK / np.sqrt(mse)))


def ssim(a: PicturePixels, b: PicturePixels) -> float | None:
    """Return the structural similarity, −1 to 1: the mean over all whole windows of each channel, then over the
    channels.

    None if a side is shorter than the window. Source: Wang et al., "Image quality assessment: from error visibility to
    structural similarity", 2004, with its Gaussian window (11 px, σ 1.5), K1 = 0.01 and K2 = 0.03.
    """
    from scipy.ndimage import gaussian_filter

    if min(a.shape[:2]) < WINDOW_PX:
        return None
    radius = WINDOW_PX // 2

    def smooth(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        means: npt.NDArray[np.float64] = gaussian_filter(values, _SIGMA_PX, radius=radius, axes=(0, 1))
        return means[radius:-radius, radius:-radius]

    x, y = a.astype(np.float64), b.astype(np.float64)
    mean_x, mean_y = smooth(x), smooth(y)
    var_x, var_y = smooth(x * x) - mean_x**2, smooth(y * y) - mean_y**2
    covariance = smooth(x * y) - mean_x * mean_y
    alike = (2 * mean_x * mean_y + _C1) * (2 * covariance + _C2)
    return float(np.mean(alike / ((mean_x**2 + mean_y**2 + _C1) * (var_x + var_y + _C2))))


Features = npt.NDArray[np.float32]
"""Shape (dimensions,)."""


def distance(a: Features, b: Features) -> float:
    """Return the Euclidean distance. For features of length 1 it is √(2 (1 − cosine)), 0 to 2."""
    return float(np.linalg.norm(a.astype(np.float64) - b))


def is_nearest_to_own(changed: npt.NDArray[np.float32], originals: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return whether each changed picture is nearer to its own original than to any other.

    Shapes (n, dimensions) -> (n,). A tie counts as not nearer. For n = 1 it says nothing and is True.
    """
    products = changed.astype(np.float64) @ originals.astype(np.float64).T
    squares = np.sum(originals.astype(np.float64) ** 2, axis=1) - 2 * products
    to_itself = np.diagonal(squares).copy()
    np.fill_diagonal(squares, np.inf)
    return np.asarray(to_itself < squares.min(axis=1, initial=np.inf), dtype=np.bool_)
