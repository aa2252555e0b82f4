"""Pages in Chromium, as a reader opens them. Each test has the marker `browser` (make test-browser)."""
