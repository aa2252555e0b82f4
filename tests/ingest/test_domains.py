"""Which registered domain a picture came from."""

import pytest

from ingest.sample import domain_of


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://cdn.shop.example.co.uk/a.jpg?sig=secret", "example.co.uk"),
        ("HTTP://WWW.Example.COM./a.jpg", "example.com"),
        (b" https://user:password@img.example.org:8443/x\n", "example.org"),
        ("//i.pinimg.com/1.jpg", "pinimg.com"),
        ("https://bücher.example.de/1.jpg", "example.de"),
        ("https://www.bücher.de/1.jpg", "xn--bcher-kva.de"),
        ("https://alice-miller.github.io/me.jpg", "github.io"),  # a platform, not the person on it
        ("https://alice.blogspot.com/me.jpg", "blogspot.com"),
    ],
)
def test_the_domain_is_the_registered_one_without_names_below_it(url: str | bytes, domain: str) -> None:
    assert domain_of(url) == domain


@pytest.mark.parametrize(
    "url",
    [
        "",
        "no url",
        "/images/1.jpg",
        "https://co.uk/1.jpg",
        "https://192.0.2.7/1.jpg",
        "https://[2001:db8::1]/1.jpg",
        "https://[/1.jpg",
        "https://localhost/1.jpg",
        "https://passport-anna-smith.intern/1.jpg",
        "https://a\x1b[31m.example.com/1.jpg",
        "https://exa mple.com/",
        "https://" + "a." * 200 + "com/1.jpg",
        "https://" + "ü" * 300 + ".com/1.jpg",
        "https://\udcff.com/",
        b"https://\xff.com/",
        "data:image/png;base64,AAAA",
        "x" * 100_000,
    ],
)
def test_what_has_no_registered_domain_has_none(url: str | bytes) -> None:
    assert domain_of(url) is None
