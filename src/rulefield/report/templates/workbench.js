"use strict";
const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");
const state = { about: null, rules: [], own: [], index: null, text: null, view: null, spans: [], picked: null, dirty: false, listed: null, changed: [], turn: 0, effectTurn: 0, deeds: 0 };

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") for (const [event, work] of Object.entries(value)) node.addEventListener(event, work);
    else if (value !== null && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

async function ask(path, body) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (token) headers.Authorization = "Bearer " + token;
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error || answer.statusText);
  return found;
}

const say = (text) => { $("said").textContent = text; };
const guarded = (work) => (...given) => Promise.resolve(work(...given)).catch((error) => say(error.message));
const later = (work, wait) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(work, wait); }; };
const active = () => state.rules.filter((rule) => !rule.error).map(({ name, rule, weight, per, on }) => ({ name, rule, weight, per, on }));
const hue = (type) => "--h:" + (state.about.hues[type] ?? 0);
// An answer that comes late must not take away what the person has turned to since.
const untouched = () => { const deeds = state.deeds; return () => deeds === state.deeds; };
const where = () => (state.index === null ? { text: state.text } : { index: state.index });

// --- the text -------------------------------------------------------------------------------------

// Fields are spans of characters, [start, end, type]; tokens are the places that can be chosen.
function word(view, i) {
  const [a, b] = view.tokens[i];
  const chance = view.chances && view.chances.length === view.tokens.length ? view.chances[i] : undefined;
  const picked = state.picked && i >= state.picked[0] && i < state.picked[1];
  const events = { mousedown: (event) => { event.preventDefault(); $("shown").focus(); pick(i, event.shiftKey); }, mouseenter: (event) => { if (event.buttons === 1) pick(i, true); }, dblclick: split };
  return make("span", { class: "token" + (chance < 0.7 ? " low" : "") + (picked ? " picked" : ""), role: "option", "aria-selected": picked ? "true" : "false", title: chance === undefined ? null : Math.round(100 * chance) + " %", on: events }, view.text.slice(a, b));
}

function pieces(view, start, end) {
  const out = [];
  let at = start;
  view.tokens.forEach(([a, b], i) => {
    if (a < start || b > end) return;
    out.push(view.text.slice(at, a), word(view, i));
    at = b;
  });
  return [...out, view.text.slice(at, end)];
}

function labeled(view, spans, plain) {
  const cut = plain ? (a, b) => [view.text.slice(a, b)] : (a, b) => pieces(view, a, b);
  const out = [];
  let at = 0;
  for (const [start, end, type] of spans) {
    out.push(...cut(at, start), make("mark", { style: hue(type) }, ...cut(start, end), make("small", {}, type)));
    at = end;
  }
  return [...out, ...cut(at, view.text.length)];
}

function pick(i, longer) {
  state.deeds += 1;
  const old = state.picked;
  const [a, b] = state.view.tokens[i];
  const span = state.spans.find(([start, end]) => start <= a && b <= end);
  if (longer && old) state.picked = [Math.min(old[0], i), Math.max(old[1], i + 1)];
  else if (old && old[0] === i && old[1] === i + 1 && span) state.picked = tokensOf(span);
  else state.picked = [i, i + 1];
  draw();
}

function tokensOf([start, end]) {
  const inside = state.view.tokens.map((place, i) => [place, i]).filter(([[a, b]]) => a >= start && b <= end).map(([, i]) => i);
  return [inside[0], inside[inside.length - 1] + 1];
}

function give(type) {
  state.deeds += 1;
  if (!state.picked) return say("choose tokens first: click one, shift-click or drag to another");
  const tokens = state.view.tokens;
  const [a, b] = [tokens[state.picked[0]][0], tokens[state.picked[1] - 1][1]];
  const left = [];
  for (const [start, end, kind] of state.spans) {
    if (end <= a || start >= b) left.push([start, end, kind]);
    else {
      if (start < a) left.push([start, lastEnd(start, a), kind]);
      if (end > b) left.push([firstStart(b, end), end, kind]);
    }
  }
  if (type) left.push([a, b, type]);
  state.spans = left.sort((x, y) => x[0] - y[0]);
  state.dirty = true;
  draw();
}

const lastEnd = (start, limit) => Math.max(...state.view.tokens.filter(([a, b]) => a >= start && b <= limit).map(([, b]) => b));
const firstStart = (limit, end) => Math.min(...state.view.tokens.filter(([a, b]) => a >= limit && b <= end).map(([a]) => a));

// Cut the chosen token into runs of letters, digits and signs; one that is such a run already into characters.
function split() {
  if (!state.picked) return say("choose a token first");
  const [i, stop] = state.picked;
  if (stop !== i + 1) return say("choose one token to split");
  const [start, end] = state.view.tokens[i];
  const text = state.view.text.slice(start, end);
  let found = text.match(/\p{L}+|\p{N}+|[^\p{L}\p{N}]/gu) || [];
  if (found.length < 2) found = [...text];
  if (found.length < 2) return say("one character cannot be split");
  let at = start;
  const places = found.map((piece) => [at, (at += piece.length)]);
  state.view.tokens.splice(i, 1, ...places);
  if (state.view.chances) state.view.chances.splice(i, 1, ...places.map(() => state.view.chances[i]));
  state.picked = [i, i + 1];
  state.deeds += 1;
  draw();
}

function draw() {
  const view = state.view;
  $("save").disabled = $("undo").disabled = $("split").disabled = !view;
  if (!view) return;
  $("shown").replaceChildren(...labeled(view, state.spans, false));
  const place = state.listed ? `${state.listed.indexOf(state.index) + 1} of ${state.listed.length} found, text ${state.index + 1}` : `${state.index + 1} of ${state.about.items}`;
  $("place").textContent = state.index === null ? "pasted text" : place + (view.corrected ? ", corrected" : view.gold ? ", has gold" : "");
  const shown = view.corrected ? "your labels" : view.probability === null || view.probability === undefined ? "" : `probability ${percent(view.probability)}` + (view.broken.length ? "; breaks " + view.broken.map((b) => b.rule).join(", ") : "");
  $("sure").textContent = state.dirty ? "not saved" : shown;
}

const percent = (p) => (p >= 0.1 ? Math.round(100 * p) : (100 * p).toPrecision(2)) + " %";

function row(name, view, spans) {
  return make("div", { class: "row" }, make("span", {}, name), make("span", { class: "text" }, ...labeled(view, spans, true)));
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

async function show(keep) {
  const turn = ++state.turn;
  if (state.index === null && state.text === null) return;
  const view = await ask("view", { ...where(), rules: active() });
  if (turn !== state.turn) return;
  if (keep && state.dirty) [view.tokens, view.chances] = [state.view.tokens, state.view.chances];
  else if (keep && state.view) state.picked = null;
  state.view = view;
  if (!keep) [state.picked, state.dirty] = [null, false];
  $("conflict").textContent = view.conflict ? `No labeling obeys these rules together: ${view.conflict.join("; ")}` : "";
  const answer = view.spans || view.plain;
  if (!state.dirty) state.spans = (view.corrected ? view.gold : answer).slice();
  const rows = [];
  if (view.spans && !same(view.plain, view.spans)) rows.push(row("without rules", view, view.plain));
  if (view.corrected && !same(view.gold, answer)) rows.push(row("model", view, answer));
  else if (view.gold && !same(view.gold, answer)) rows.push(row("gold", view, view.gold));
  $("changes").replaceChildren(...rows);
  $("alternatives").replaceChildren(...(view.alternatives || []).map((a) => row(percent(a.probability), view, a.spans)));
  draw();
}

const mayLeave = () => !state.dirty || confirm("The labels of this text are not saved. Leave them?");

function turnTo(index) {
  if (!mayLeave()) return;
  state.dirty = false;
  state.deeds += 1;
  state.index = index;
  say("");
  return show();
}

function go(step) {
  const list = state.listed || [...Array(state.about.items).keys()];
  if (!list.length) return say("there are no texts here");
  const from = state.index === null ? (step > 0 ? -1 : 0) : list.indexOf(state.index);
  return turnTo(list[(from + step + list.length) % list.length]);
}

async function narrow(listed) {
  const plain = $("kind").value === "all" && !$("words").value;
  state.listed = listed || (plain ? null : (await ask("find", { kind: $("kind").value, words: $("words").value, rules: active() })).found);
  $("found").textContent = state.listed ? `${state.listed.length} texts` : "";
  if (state.listed && state.listed.length && !state.listed.includes(state.index)) await turnTo(state.listed[0]);
  else draw();
}

async function mostUseful() {
  const still = untouched();
  say("looking for the most useful text …");
  const found = await ask("next", { rules: active() });
  say(found.index === null ? "nothing is left to label" : "");
  if (found.index !== null && still()) await turnTo(found.index);
}

// --- rules ----------------------------------------------------------------------------------------

const fit = (area) => { area.style.height = "auto"; area.style.height = area.scrollHeight + 2 + "px"; };

// Rules to begin with; A and B stand for the first labels.
const TEMPLATES = [
  ["at most one A", "segments('A') <= 1"], ["exactly one A", "segments('A') == 1"], ["each label at most once", "each_at_most_once()"],
  ["A before B", "before('A', 'B')"], ["B right after A", "followed_by('A', 'B')"], ["B somewhere after A", "eventually('A', 'B')"],
  ["A only if B", "implies(present('A'), present('B'))"], ["A or B, not both", "at_most(1, present('A'), present('B'))"],
  ["begins with A", "first('A')"], ["ends with A", "last('A')"], ["no A", "absent('A')"],
  ["tokens of A match a pattern", "count('A', where=token_not(token_matches('[0-9]+'))) == 0"],
];

function template(text) {
  const [a, b] = [state.about.types[0] || "A", state.about.types[1] || "B"];
  return text.replaceAll("'A'", `'${a}'`).replaceAll("'B'", `'${b}'`);
}

function card(rule) {
  const box = make("div", { class: "rule" + (rule.on ? "" : " off") });
  const error = make("pre", { role: "alert" });
  const price = make("output", {}, rule.weight === "hard" ? "hard" : String(rule.weight));
  const changed = () => { box.className = "rule" + (rule.on ? "" : " off"); refresh(); };
  const text = make("textarea", { rows: 1, spellcheck: "false", "aria-label": "rule", on: { input: () => { fit(text); rule.rule = text.value; rule.error = "not checked yet"; changed(); } } }, rule.rule);
  requestAnimationFrame(() => fit(text));
  const on = make("input", { type: "checkbox", checked: rule.on, "aria-label": "switch the rule on", on: { change: () => { rule.on = on.checked; changed(); } } });
  const weight = make("input", { type: "range", min: "0", max: "10", step: "0.1", value: rule.weight === "hard" ? 10 : rule.weight, disabled: rule.weight === "hard", "aria-label": "weight", on: { input: () => { rule.weight = Number(weight.value); price.textContent = weight.value; changed(); } } });
  const hard = make("input", { type: "checkbox", checked: rule.weight === "hard", "aria-label": "hard", on: { change: () => { rule.weight = hard.checked ? "hard" : Number(weight.value); weight.disabled = hard.checked; price.textContent = hard.checked ? "hard" : weight.value; changed(); } } });
  const gone = make("button", { title: "remove", "aria-label": "remove the rule", on: { click: () => { state.rules = state.rules.filter((other) => other !== rule); box.remove(); refresh(); } } }, "×");
  const count = make("span", { class: "dim" });
  rule.tell = (row) => {
    rule.error = row.error;
    error.textContent = row.error || "";
  };
  rule.count = (n) => { count.textContent = n ? `broken in ${n}` : ""; };
  if (rule.name) box.append(make("div", { class: "name" }, rule.name));
  box.append(text, error, make("div", { class: "bar" }, make("label", {}, on, " on"), make("label", {}, hard, " hard"), weight, price, count, gone));
  return box;
}

async function check() {
  const asked = state.rules.map((rule) => ({ rule, text: rule.rule }));
  const found = await ask("rules/check", { rules: state.rules.map(({ name, rule, weight, per }) => ({ name, rule, weight, per })) });
  // A rule that was changed meanwhile is not the one that was read.
  found.rules.forEach((row, i) => { if (asked[i].rule.rule === asked[i].text) asked[i].rule.tell(row); });
  await ask("rules/keep", { rules: state.rules.map(({ name, rule, weight, per, on }) => ({ name, rule, weight, per, on })) });
}

async function count() {
  if (!state.about.items) return;
  const turn = ++state.effectTurn;
  const rules = active();
  const begun = performance.now();
  $("effect").textContent = "counting …";
  const found = await ask("effect", { rules, before: state.own });
  if (turn !== state.effectTurn) return;
  state.changed = found.changed;
  const known = found.f1 === null || found.f1 === undefined ? "" : ` ${found.better} fields better, ${found.worse} worse.`;
  const link = make("a", { href: "#", on: { click: guarded((event) => { event.preventDefault(); return narrow(state.changed); }) } }, "show them");
  $("effect").replaceChildren(`Against the model's own rules: ${found.changed.length} of ${found.items} texts change.${known} `, ...(found.changed.length ? [link] : []));
  const score = (f1) => (100 * f1).toFixed(1);
  const before = found.f1 === found.f1_before ? "" : ` (${score(found.f1_before)} with the model's own rules)`;
  $("score").textContent = known ? `Span F1 ${score(found.f1)} on ${state.about.gold} texts with gold${before}${state.trained ? "; the model was trained on them" : ""}.` : "";
  $("effect").dataset.ms = String(Math.round(performance.now() - begun));
  const seen = state.rules.filter((rule) => !rule.error && rule.on);
  seen.forEach((rule, i) => rule.count(found.broken[i]));
}

const soon = later(guarded(count), 350);
const refresh = later(guarded(async () => { await check(); await show(true); soon(); }), 60);

function add(rule) {
  state.rules.push(rule);
  const box = card(rule);
  $("rules").append(box);
  return box;
}

// --- saving, training, files -----------------------------------------------------------------------

async function save() {
  const still = untouched();
  const found = await ask("correct", { ...where(), spans: state.spans });
  state.about = await ask("about");
  drawAbout();
  if (still()) { state.dirty = false; await turnTo(found.index); }
  const left = state.about.first_training - found.corrected;
  say(state.about.model ? `saved; ${found.corrected} corrected` : left > 0 ? `saved; ${left} more until the first training` : "saved");
  if (!state.about.model && left <= 0) await watch();
}

async function retrain() {
  if (!mayLeave()) return;
  await ask("retrain", {});
  await watch();
}

async function watch() {
  for (;;) {
    const now = await ask("retrain");
    const more = now.iteration ? `, iteration ${now.iteration}, objective ${now.objective}` : "";
    $("training").textContent = now.state === "done" ? `trained on ${now.texts} texts in ${now.seconds} s${more}` : now.state === "failed" ? now.message : `training on ${now.texts} texts${more}`;
    if (now.state !== "training") break;
    await new Promise((done) => setTimeout(done, 300));
  }
  state.about = await ask("about");
  state.trained = true;
  state.dirty = false;
  drawAbout();
  drawTypes();
  await show();
  soon();
}

async function saveRules() {
  const found = await ask("rules/save", { rules: active() });
  state.about = await ask("about");
  state.own = state.about.own.map((rule) => ({ ...rule }));
  $("training").textContent = `${found.rules} rules saved into ${found.path || "the model"}`;
  soon();
}

function drawAbout() {
  const about = state.about;
  const model = about.model ? `${about.path || "model"} (${about.model})` : "no model yet";
  $("about").textContent = `${model} · ${about.data || "no data"}: ${about.items} texts, ${about.gold} with gold`;
  // What training would learn from: corrections take the place of the gold of a text.
  const [corrected, rest] = [about.corrected, about.gold - about.corrected];
  const gold = rest ? ` and ${rest} texts with gold as they are` : "";
  $("trains").textContent = about.gold ? `Retrain learns from ${corrected} texts that you saved, with your labels in place of their gold,${gold}; scores on these texts are then too good.` : "";
}

function download(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

async function fetched(path, name) {
  const answer = await fetch(path, { headers: token ? { Authorization: "Bearer " + token } : {} });
  download(name, await answer.blob());
}

function drawTypes() {
  const buttons = state.about.types.map((type, i) => make("button", { class: "type", style: hue(type), on: { click: () => give(type) } }, ...(i < 9 ? [make("small", {}, String(i + 1))] : []), type));
  $("types").replaceChildren(...buttons, make("button", { title: "no label (0)", on: { click: () => give(null) } }, make("small", {}, "0 "), "none"), make("button", { title: "another label", on: { click: addType } }, "+ label"));
}

function addType() {
  const name = (prompt("Name of the label") || "").trim();
  if (!name || state.about.types.includes(name)) return;
  state.about.types.push(name);
  state.about.hues[name] = (47 * state.about.types.length) % 360;
  drawTypes();
}

function keys(event) {
  if (["TEXTAREA", "INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = state.view ? state.view.tokens.length : 0;
  if (event.key >= "1" && event.key <= "9") give(state.about.types[Number(event.key) - 1]);
  else if (event.key === "0") give(null);
  else if (event.key === "s") guarded(save)();
  else if (event.key === "u") $("useful").click();
  else if (event.key === "x") split();
  else if (event.key === "n") guarded(go)(1);
  else if (event.key === "p") guarded(go)(-1);
  else if (event.key === "ArrowRight" && event.shiftKey && state.picked) { state.picked = [state.picked[0], Math.min(state.picked[1] + 1, last)]; draw(); }
  else if (event.key === "ArrowRight" && document.activeElement === $("shown")) { const i = state.picked ? Math.min(state.picked[1], last - 1) : 0; state.picked = [i, i + 1]; draw(); }
  else if (event.key === "ArrowLeft" && document.activeElement === $("shown")) { const i = state.picked ? Math.max(state.picked[0] - 1, 0) : 0; state.picked = [i, i + 1]; draw(); }
  else if (event.key === "ArrowRight") guarded(go)(1);
  else if (event.key === "ArrowLeft") guarded(go)(-1);
}

async function start() {
  state.about = await ask("about");
  drawAbout();
  state.own = state.about.own.map((rule) => ({ ...rule }));
  state.about.rules.forEach((rule) => add({ ...rule }));
  drawTypes();
  $("prev").onclick = guarded(() => go(-1));
  $("next").onclick = guarded(() => go(1));
  $("useful").onclick = guarded(mostUseful);
  $("save").onclick = guarded(save);
  $("undo").onclick = guarded(() => { state.dirty = false; return show(); });
  $("retrain").onclick = guarded(retrain);
  $("template").append(...TEMPLATES.map(([name, text]) => make("option", { value: text }, name)));
  const adding = (text) => { add({ rule: text, weight: 1, on: true }).querySelector("textarea").focus(); refresh(); };
  $("add").onclick = () => adding(template(TEMPLATES[0][1]));
  $("template").onchange = () => { if ($("template").value) adding(template($("template").value)); $("template").value = ""; };
  $("save-rules").onclick = guarded(saveRules);
  $("split").onclick = split;
  $("kind").onchange = guarded(() => narrow());
  $("words").oninput = later(guarded(() => narrow()), 250);
  window.addEventListener("beforeunload", (event) => { if (state.dirty) event.preventDefault(); });
  const read = guarded(() => { if (!$("paste").value.trim()) return say("paste a text first"); if (!mayLeave()) return; state.dirty = false; state.text = $("paste").value; return turnTo(null); });
  $("read").onclick = read;
  $("paste").onkeydown = (event) => { if (event.key === "Enter" && event.ctrlKey) read(); };
  $("get-model").onclick = guarded(() => fetched("model", "model.rf"));
  $("get-corrections").onclick = guarded(() => fetched("corrections", "corrections.jsonl"));
  $("get-rules").onclick = guarded(async () => { const found = await ask("rules/file", { rules: active() }); download("rules.yaml", new Blob([found.text])); });
  document.addEventListener("keydown", keys);
  if (state.about.items) { state.index = 0; await show(); soon(); }
  else { draw(); $("shown").textContent = "No texts yet: paste one below, or start the server with --data FILE."; }
  if (!state.about.model) say(`No model yet: label ${state.about.first_training} texts, and it is trained. Choose words, then a label.`);
  document.body.dataset.ready = "yes";
}

guarded(start)();
