"""The figures are those of their definitions, computed another way."""

import numpy as np
import pytest

from reports.similarity.likeness import distance, is_nearest_to_own, mean_squared_error, psnr, ssim
from scoring.picture_encoders import unit

RANDOM = np.random.default_rng(5)


def picture(height: int = 20, width: int = 16) -> np.ndarray:
    return RANDOM.integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_a_difference_of_ten_steps_everywhere_is_an_mse_of_a_hundred_and_28_db() -> None:
    a = np.full((4, 5, 3), 100, np.uint8)
    mse = mean_squared_error(a, a + 10)
    assert mse == 100
    assert psnr(mse) == pytest.approx(28.1308, abs=1e-4)


def test_black_against_white_does_not_overflow() -> None:
    white = np.full((4, 4, 3), 255, np.uint8)
    assert mean_squared_error(np.zeros_like(white), white) == 255**2
    assert psnr(255.0**2) == 0


def test_equal_pictures_have_no_psnr_and_an_ssim_of_one() -> None:
    a = picture()
    assert psnr(mean_squared_error(a, a)) is None
    assert ssim(a, a) == pytest.approx(1)


def test_ssim_is_the_mean_over_all_windows_computed_one_by_one() -> None:
    a = picture()
    b = np.clip(a.astype(int) // 2 + RANDOM.integers(0, 80, a.shape), 0, 255).astype(np.uint8)
    steps = np.arange(-5, 6)
    weights = np.exp(-(steps[:, None] ** 2 + steps[None, :] ** 2) / (2 * 1.5**2))
    weights /= weights.sum()
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    values = []
    for top in range(a.shape[0] - 10):
        for left in range(a.shape[1] - 10):
            for channel in range(3):
                x, y = (p[top : top + 11, left : left + 11, channel].astype(float) for p in (a, b))
                mean_x, mean_y = (weights * x).sum(), (weights * y).sum()
                var_x, var_y = (weights * (x - mean_x) ** 2).sum(), (weights * (y - mean_y) ** 2).sum()
                covariance = (weights * (x - mean_x) * (y - mean_y)).sum()
                alike = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
                values.append(alike / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2)))
    assert ssim(a, b) == pytest.approx(np.mean(values), abs=1e-9)


def test_a_picture_that_is_smaller_than_the_window_has_no_ssim() -> None:
    assert ssim(picture(10, 40), picture(10, 40)) is None


def test_the_distance_of_unit_features_follows_from_their_cosine() -> None:
    a, b = (unit(RANDOM.normal(size=8).astype(np.float32)) for _ in range(2))
    assert distance(a, b) == pytest.approx(np.sqrt(2 * (1 - float(a @ b))), abs=1e-6)
    assert unit(np.zeros(3, np.float32)).tolist() == [0, 0, 0]


def test_a_picture_is_found_again_only_if_its_own_original_is_the_nearest() -> None:
    originals = np.eye(3, dtype=np.float32)
    changed = np.array([[0.9, 0.1, 0], [0.1, 0.2, 0.9], [0.5, 0, 0.5]], np.float32)  # own, another, a tie
    assert is_nearest_to_own(changed, originals).tolist() == [True, False, False]
