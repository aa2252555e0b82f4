"""The contact sheet of a release, as the person opens it who decides whether the release goes out."""

import shutil
from pathlib import Path

from tests.browser.conftest import SIDEWAYS, WIDTH_PHONE_PX, OpenPage
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.jobs.releases import DEMO, with_policy

BRIGHTEST = """one => {
  const canvas = Object.assign(document.createElement("canvas"), {width: one.naturalWidth, height: one.naturalHeight});
  const context = canvas.getContext("2d");
  context.drawImage(one, 0, 0);
  return Math.max(...context.getImageData(0, 0, 64, 64).data.filter((_, n) => n % 4 < 3));
}"""
POLICY = """name: hide
default: keep
rules:
  - {name: people, when: "category = 'portrait'", then: redact, cover: [image], reason: shows a person}
  - {name: "<b>signs</b>", when: "category = 'sign'", then: redact, cover: [image], reason: "<i>a sign</i>"}
"""
HOSTILE = "<img src=http:x onerror=alert(1)>.jpg"


def test_covered_pictures_are_seen_before_and_after_and_the_page_loads_nothing(
    tmp_path: Path, open_page: OpenPage
) -> None:
    source, run, sheet = tmp_path / "source", tmp_path / "run", tmp_path / "sheet.html"
    for name in ("portrait/a.jpg", "portrait/b.jpg", f"sign/{HOSTILE}", "sky/c.jpg"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(DEMO / "portrait" / "woman.jpg", source / name)
    scan_in_process(source, run)
    assert (
        privsieve("filter", run, "--policy", with_policy(tmp_path, POLICY), "--out", tmp_path / "out", "--quiet") == 0
    )
    assert privsieve("release", "verify", tmp_path / "out", "--contact-sheet", sheet) == 0

    page = open_page(sheet.as_uri(), width=WIDTH_PHONE_PX)
    requests = list[str]()
    page.on("request", lambda request: requests.append(request.url))
    page.reload()
    assert {url for url in requests if not url.startswith("data:")} == {sheet.as_uri()}
    assert page.locator(".warning").inner_text().startswith("This page shows private pictures uncovered.")
    assert page.locator("h2").all_inner_texts() == ["people", "<b>signs</b>"]
    assert page.locator(".pair").count() == 3  # the picture of the sky is kept, so it is not here
    before, after = (
        [page.locator(f"img.{side}").nth(n).evaluate(BRIGHTEST) for n in range(3)] for side in ("before", "after")
    )
    assert min(before) > 100
    assert max(after) < 10
    assert page.locator(".key").all_inner_texts() == ["portrait/a.jpg", "portrait/b.jpg", f"sign/{HOSTILE}"]
    assert page.locator("li").first.inner_text() == "image: 1 area, 100.0 % of the picture; not examined afterwards"
    assert page.evaluate(SIDEWAYS) <= 0
