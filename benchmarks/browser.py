"""The workbench in a real browser: rules, a reload, token split, unsaved edits, saving, training, a start from nothing.

Needs chromium and chromedriver (Debian: chromium, chromium-driver) and the extra "browser". Any console
error fails. Prints the times of a changed rule's effect, and writes pictures.

    python benchmarks/browser.py [--texts 1000] [--out build/browser]
"""

import argparse
import json
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import uvicorn
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.ui import Select, WebDriverWait

import rulefield as rf
from rulefield import rules as r
from rulefield.cli.pages.app import make_app
from rulefield.cli.pages.serve import open_workbench
from rulefield.cli.pages.workbench import FIRST_TRAINING, Workbench
from rulefield.datasets import make_addresses

PORT = 8765


def make_bench(n: int, folder: Path) -> Workbench:
    """A parser with coarse tokens and three rules, and messy addresses with gold."""
    rules = [
        (r.segments("city") == 1).named("one city"),
        r.before("number", "street").soft(2.0).named("the number stands first"),
        r.each_at_most_once().soft(2.0).named("each field once"),
    ]
    texts, spans = make_addresses(n + 100, seed=0, noise=0.2, messy=True)
    crf = rf.ChainCRF(scheme="BIO", rules=rules, max_iter=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fields that begin inside a token are what the test is about
        parser = rf.TextParser(model=crf, tokenizer="whitespace").fit(texts[:100], spans[:100])
    parser.save(folder / "addresses.rf")
    rows = ({"text": text, "label": marks} for text, marks in zip(texts[100:], spans[100:]))
    (folder / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_workbench(str(folder / "addresses.rf"), str(folder / "test.jsonl"), str(folder / "c.jsonl"))


def empty_bench(folder: Path) -> Workbench:
    """No model: label names and 40 texts."""
    texts, _ = make_addresses(40, seed=5, noise=0, messy=True, plain=True)
    (folder / "texts.txt").write_text("".join(" ".join(text.split()) + "\n" for text in texts))
    names = ["city", "number", "state", "street", "unit", "zip"]
    return open_workbench(str(folder / "new.rf"), str(folder / "texts.txt"), None, None, names)


def serve(bench: Workbench, port: int = PORT) -> uvicorn.Server:
    server = uvicorn.Server(uvicorn.Config(make_app(bench), port=port, log_level="warning"))
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


class Page:
    """The workbench in a browser: what a person does, and what they wait for."""

    def __init__(self, driver: webdriver.Chrome, out: Path, port: int = PORT):
        passing = [
            StaleElementReferenceException
        ]  # the page drew a text anew between finding a part of it and using it
        self.driver, self.out, self.port = driver, out, port
        self._wait = WebDriverWait(driver, 60, poll_frequency=0.1, ignored_exceptions=passing)

    def open(self) -> None:
        self.driver.get(f"http://127.0.0.1:{self.port}/")
        self.until(lambda: self.driver.find_element(By.TAG_NAME, "body").get_attribute("data-ready"))

    def until(self, true: Callable[[], object]) -> None:
        self._wait.until(lambda _: true())

    def until_text(self, name: str, words: str) -> None:
        try:
            self.until(lambda: words in self.text(name))
        except TimeoutException:
            raise AssertionError(f"{words!r} is not in #{name}: {self.text(name)!r}") from None

    def text(self, name: str) -> str:
        return self.driver.find_element(By.ID, name).text

    def click(self, name: str) -> None:
        self.driver.find_element(By.ID, name).click()

    def keys(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def tokens(self) -> list[str]:
        return [node.text for node in self.driver.find_elements(By.CSS_SELECTOR, "#shown .token")]

    def token(self, number: int) -> None:
        self.until(lambda: self.driver.find_elements(By.CSS_SELECTOR, "#shown .token")[number].click() or True)

    def fields(self) -> list[str]:
        return [node.text for node in self.driver.find_elements(By.CSS_SELECTOR, "#shown mark")]

    def rules(self) -> list[str]:
        return [n.get_attribute("value") for n in self.driver.find_elements(By.CSS_SELECTOR, ".rule textarea")]

    def answer(self, accept: bool) -> None:
        self.until(lambda: expected_conditions.alert_is_present()(self.driver))
        alert = self.driver.switch_to.alert
        _ = alert.accept() if accept else alert.dismiss()

    def picture(self, name: str) -> None:
        self.driver.save_screenshot(str(self.out / f"{name}.png"))


def walk_rules(page: Page) -> None:
    """A wrong rule, a rule from a template that changes texts, a reload, and saving into the model."""
    page.open()
    page.until_text("effect", "texts change")
    page.until_text("score", "Span F1")
    assert "addresses.rf" in page.text("about")
    assert "test.jsonl" in page.text("about")
    page.picture("1-loaded")
    page.click("add")
    box = page.driver.find_elements(By.CSS_SELECTOR, ".rule textarea")[-1]
    box.clear()
    box.send_keys("segments('ctiy') <= 0")
    page.until(lambda: "did you mean" in page.driver.find_elements(By.CSS_SELECTOR, ".rule pre")[-1].text)
    page.picture("2-error")
    page.driver.find_elements(By.CSS_SELECTOR, ".rule button")[-1].click()
    Select(page.driver.find_element(By.ID, "template")).select_by_visible_text("no A")
    box = page.driver.find_elements(By.CSS_SELECTOR, ".rule textarea")[-1]
    box.clear()
    box.send_keys("absent('zip')")
    page.driver.find_elements(By.CSS_SELECTOR, ".rule input[aria-label=hard]")[-1].click()
    page.until_text("changes", "without rules")
    page.until_text("effect", "show them")
    page.picture("3-rule")
    before = page.rules()
    page.open()
    page.until(lambda: page.rules() == before)  # rules survive a reload
    page.driver.find_elements(By.CSS_SELECTOR, ".rule button")[-1].click()
    page.until_text("effect", "rules: 0 of")
    page.click("save-rules")
    page.until_text("training", "rules saved into addresses.rf")


def walk_texts(page: Page, bench: Workbench) -> None:
    """Narrow the list, split a token, edit, be asked before leaving, save, see the correction, train."""
    Select(page.driver.find_element(By.ID, "kind")).select_by_value("wrong")
    page.until_text("found", "texts")
    Select(page.driver.find_element(By.ID, "kind")).select_by_value("all")
    page.until(lambda: not page.text("found"))
    words = page.tokens()
    page.token(0)
    page.keys("x")
    page.until(lambda: len(page.tokens()) > len(words))  # the token is split
    page.keys("1")
    page.until_text("sure", "not saved")
    edited = page.fields()
    page.picture("4-edited")
    place = page.text("place")
    page.keys("n")
    page.answer(accept=False)
    assert (page.text("place"), page.fields()) == (place, edited)
    page.click("save")
    page.until_text("said", "saved")
    assert page.fields() == edited, "what was saved is what is shown"
    page.until_text("sure", "your labels")
    assert sum(item.corrected for item in bench.items) == 1
    page.keys("n")
    page.until(lambda: page.text("place") != place and not page.text("said"))
    page.click("retrain")
    page.until_text("training", "trained on")
    page.until_text("score", "trained on them")
    page.click("useful")  # its answer comes when the person has turned to another text
    page.click("more")
    page.picture("5-trained")
    paste = page.driver.find_element(By.ID, "paste")
    paste.send_keys(Keys.CONTROL + Keys.ENTER)
    page.until_text("said", "paste a text first")
    paste.send_keys("<img src=x onerror=alert(1)> 12 Oak St,Troy NY 12180", Keys.CONTROL + Keys.ENTER)
    page.until_text("place", "pasted text")
    assert not page.driver.find_elements(By.CSS_SELECTOR, "#shown img")
    page.until(lambda: "looking" not in page.text("said"))
    assert page.text("place") == "pasted text"
    page.driver.set_window_size(390, 900)
    page.picture("6-narrow")
    assert page.driver.execute_script("return document.documentElement.scrollWidth <= innerWidth"), "scrolls sideways"
    page.driver.set_window_size(1280, 1000)


def walk_from_nothing(page: Page, bench: Workbench) -> None:
    """No model: label twenty texts with the keyboard alone; then one is trained and labels the next text."""
    page.open()
    assert "no model yet" in page.text("about")
    page.until_text("said", "No model yet")
    page.picture("7-nothing")
    for _ in range(60):  # to the text, by Tab alone
        page.keys(Keys.TAB)
        if page.driver.switch_to.active_element.get_attribute("id") == "shown":
            break
    else:
        raise AssertionError("the keyboard does not reach the text")
    for number in range(FIRST_TRAINING):
        page.until_text("place", f"{number + 1} of")
        page.keys(Keys.ARROW_RIGHT)
        page.keys("2")  # number
        page.keys(Keys.ARROW_RIGHT)
        page.driver.switch_to.active_element.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
        page.keys("4")  # street
        page.keys("s")
        page.until_text("said", "saved")
        if number + 1 < FIRST_TRAINING:
            page.keys("n")
    page.until_text("training", "trained on")
    page.keys("n")
    page.until(lambda: page.fields())
    page.picture("8-first-model")
    assert Path(bench.path or "").is_file()


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
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench, empty = make_bench(options.texts, folder), empty_bench(folder)
        figures = times(bench)
        servers, driver = [serve(bench), serve(empty, PORT + 1)], browser(options.dark)
        try:
            page = Page(driver, options.out)
            walk_rules(page)
            walk_texts(page, bench)
            walk_from_nothing(Page(driver, options.out, PORT + 1), empty)
            errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        finally:
            driver.quit()
            for server in servers:
                server.should_exit = True
    assert not errors, errors
    print(f"no console errors; pictures in {options.out}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
