"""The workbench in a real browser: load, add a rule, see the change, correct, save, retrain; no console errors.

Needs chromium and chromedriver (Debian: chromium, chromium-driver) and the extra "browser". Prints the times of a changed
rule's effect, and writes pictures.

    python benchmarks/browser.py [--texts 1000] [--out build/browser]
"""

import argparse
import json
import shutil
import tempfile
import threading
import time
from pathlib import Path

import uvicorn
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import rulefield as rf
from rulefield import rules as r
from rulefield.cli.pages.app import make_app
from rulefield.cli.pages.workbench import Item, Workbench
from rulefield.data.documents import joined

PORT = 8765


def make_bench(n: int, corrections: str) -> Workbench:
    X, y = rf.datasets.make_citations(n + 100, seed=0, noise=0.3)
    rules = [
        (r.segments("title") == 1).named("one title"),
        (r.segments("author") <= 1).soft(2.0).named("authors stand together"),
        (r.segments("journal") + r.segments("booktitle") <= 1).soft(2.0).named("one venue"),
    ]
    crf = rf.ChainCRF(scheme="BIO", rules=rules, max_iter=60).fit(X[:100], y[:100])
    items = []
    for tokens, gold in zip(X[100:], y[100:]):
        text, places = joined(tokens)
        items.append(Item(text, list(places), tokens, gold))
    return Workbench(rf.TextParser.of(crf, "whitespace"), items, corrections)


def serve(bench: Workbench) -> uvicorn.Server:
    server = uvicorn.Server(uvicorn.Config(make_app(bench), port=PORT, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    return server


def browser(dark: bool) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", "--hide-scrollbars"):
        options.add_argument(flag)
    if dark:
        options.add_argument("--blink-settings=preferredColorScheme=0")
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def walk(page: webdriver.Chrome, bench: Workbench, out: Path) -> None:
    passing = [StaleElementReferenceException]  # the page drew a text anew between finding a part of it and using it
    wait = WebDriverWait(page, 60, poll_frequency=0.1, ignored_exceptions=passing)
    page.get(f"http://127.0.0.1:{PORT}/")
    wait.until(lambda p: p.find_element(By.TAG_NAME, "body").get_attribute("data-ready"))
    wait.until(lambda p: "texts change" in p.find_element(By.ID, "effect").text)
    page.save_screenshot(str(out / "1-loaded.png"))

    page.find_element(By.ID, "add").click()
    box = page.find_elements(By.CSS_SELECTOR, ".rule input[type=text]")[-1]
    box.clear()
    box.send_keys("segments('athor') <= 0")
    wait.until(
        lambda p: (
            "did you mean" in p.find_elements(By.CSS_SELECTOR, ".rule pre")[-1].text
            or "matches no" in p.find_elements(By.CSS_SELECTOR, ".rule pre")[-1].text
        )
    )
    page.save_screenshot(str(out / "2-error.png"))
    box.clear()
    box.send_keys("segments('author') <= 0")
    wait.until(lambda p: not p.find_elements(By.CSS_SELECTOR, ".rule pre")[-1].text)
    page.find_elements(By.CSS_SELECTOR, ".rule input[aria-label=hard]")[-1].click()
    wait.until(lambda p: "without rules" in p.find_element(By.ID, "changes").text)
    wait.until(lambda p: "better" in (said := p.find_element(By.ID, "effect").text) and "rules: 0 of" not in said)
    page.save_screenshot(str(out / "3-rule.png"))
    page.find_elements(By.CSS_SELECTOR, ".rule button")[-1].click()
    wait.until(lambda p: "without rules" not in p.find_element(By.ID, "changes").text)

    before = page.find_element(By.ID, "place").text
    page.find_element(By.ID, "useful").click()
    wait.until(lambda p: p.find_element(By.ID, "place").text != before)
    wait.until(lambda p: "looking" not in p.find_element(By.ID, "said").text)
    wait.until(lambda p: p.find_elements(By.CSS_SELECTOR, "#shown .token")[0].click() or True)
    page.find_element(By.TAG_NAME, "body").send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    page.find_element(By.TAG_NAME, "body").send_keys("1")
    page.save_screenshot(str(out / "4-corrected.png"))
    page.find_element(By.ID, "save").click()
    wait.until(lambda p: "saved" in p.find_element(By.ID, "said").text)
    assert sum(item.corrected for item in bench.items) == 1
    page.find_element(By.ID, "retrain").click()
    wait.until(lambda p: "trained on" in p.find_element(By.ID, "training").text)
    page.find_element(By.ID, "useful").click()  # its answer comes when the person has turned to another text
    page.find_element(By.ID, "more").click()
    page.save_screenshot(str(out / "5-trained.png"))
    page.find_element(By.ID, "paste").send_keys(
        "<img src=x onerror=alert(1)> A. Turing, On computable numbers, 1936", Keys.CONTROL + Keys.ENTER
    )
    wait.until(lambda p: p.find_element(By.ID, "place").text == "pasted text")
    assert not page.find_elements(By.CSS_SELECTOR, "#shown img")
    wait.until(lambda p: "looking" not in p.find_element(By.ID, "said").text)
    assert page.find_element(By.ID, "place").text == "pasted text"


def times(bench: Workbench) -> dict[str, float]:
    """CPU seconds of a changed rule's effect, against plain decoding of the same texts; each time another weight."""
    rules = bench.acting(None)
    tokens = [item.tokens for item in bench.items]
    found = {}
    for name, work in (
        ("plain_decoding_of_all", lambda changed: bench.model.predict(tokens, rules=[])),
        ("effect_on_all", lambda changed: bench.effect(changed, rules)),
        ("effect_on_one", lambda changed: bench.view(0, None, changed)),
    ):
        taken = []
        for weight in (0.5, 1.0, 3.0, 4.0):
            begun = time.process_time()
            work([rules[0], rules[1].soft(weight), rules[2]])
            taken.append(time.process_time() - begun)
        found[name] = round(sorted(taken[1:])[1], 4)
    found["ratio"] = round(found["effect_on_all"] / found["plain_decoding_of_all"], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("build/browser"))
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = make_bench(options.texts, f"{folder}/corrections.jsonl")
        figures = times(bench)
        server, page = serve(bench), browser(options.dark)
        try:
            walk(page, bench, options.out)
            errors = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            page.quit()
            server.should_exit = True
    assert not errors, errors
    print(f"no console errors; pictures in {options.out}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
