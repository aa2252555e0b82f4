"""How alike two pictures are, pixel by pixel: MSE, PSNR and SSIM. All expect 8-bit pictures of the same shape.

None of them says whether a person would recognise the content: a shift of a few pixels changes all of them much, and
no person's impression. `feature_likeness` has what comes nearer to that.
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
    """Mean over all pixels and channels of the squared difference, 0 to 65,025."""
    return float(np.mean((a.astype(np.float64) - b) ** 2))


def psnr(mse: float) -> float | None:
    """Peak signal-to-noise ratio in dB, 20 log10(255 / √MSE); None for equal pictures, where it is infinite."""
    return None if mse == 0 else float(20 * np.log10(PEAK / np.sqrt(mse)))


def ssim(a: PicturePixels, b: PicturePixels) -> float | None:
    """Structural similarity, −1 to 1: the mean over all whole windows of each channel, then over the channels.

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
