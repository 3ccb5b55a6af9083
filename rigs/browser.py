"""A headless Chromium for tests of pages; tests that ask for it are skipped where it is not installed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def opened(url: str, **context: Any) -> Iterator[tuple[Any, list[str]]]:
    """Yield the page at `url`, and a list that collects its errors and failed requests.

    Args:
        url: The page.
        context: Options of Playwright's `new_context`, such as `color_scheme="dark"`.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium, e.g. apt-get install chromium")
    with playwright.sync_playwright() as driver:
        arguments = [
            "--no-sandbox",
            "--use-gl=angle",
            "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader",
        ]
        browser = driver.chromium.launch(executable_path=chromium, args=arguments)
        page, errors = browser.new_context(**context).new_page(), list[str]()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("requestfailed", lambda request: errors.append(f"failed: {request.url[:100]}"))
        page.goto(url)
        try:
            yield page, errors
        finally:
            browser.close()
