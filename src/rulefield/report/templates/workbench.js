"use strict";
const $ = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token");
const state = { about: null, rules: [], own: [], index: null, text: null, view: null, spans: [], picked: null, turn: 0, effectTurn: 0, deeds: 0 };

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

function labeled(view, spans, plain) {
  const out = [];
  let at = 0, t = 0;
  const word = (i) => {
    const [a, b] = view.tokens[i];
    const text = view.text.slice(a, b);
    if (plain) return text;
    const chance = view.chances && view.chances[i];
    const picked = state.picked && i >= state.picked[0] && i < state.picked[1];
    const node = make("span", { class: "token" + (chance < 0.7 ? " low" : "") + (picked ? " picked" : ""), title: chance === undefined ? null : Math.round(100 * chance) + " %", on: { click: (event) => pick(i, event.shiftKey) } }, text);
    return node;
  };
  const gap = (i) => { const text = view.text.slice(at, view.tokens[i][0]); at = view.tokens[i][1]; return text; };
  for (const [start, stop, type] of [...spans, [view.tokens.length, view.tokens.length, null]]) {
    for (; t < start; t++) out.push(gap(t), word(t));
    if (type === null) break;
    out.push(gap(t));
    const mark = make("mark", { style: hue(type) }, word(t));
    for (t += 1; t < stop; t++) mark.append(gap(t), word(t));
    mark.append(make("small", {}, type));
    out.push(mark);
  }
  out.push(view.text.slice(at));
  return out;
}

function pick(i, longer) {
  state.deeds += 1;
  const old = state.picked;
  if (longer && old) state.picked = [Math.min(old[0], i), Math.max(old[1], i + 1)];
  else {
    const span = state.spans.find(([a, b]) => a <= i && i < b);
    state.picked = old && old[0] === i && old[1] === i + 1 && span ? [span[0], span[1]] : [i, i + 1];
  }
  draw();
}

function give(type) {
  state.deeds += 1;
  if (!state.picked) return say("choose tokens first: click one, shift-click another");
  const [a, b] = state.picked;
  const left = [];
  for (const [start, stop, kind] of state.spans) {
    if (stop <= a || start >= b) left.push([start, stop, kind]);
    else {
      if (start < a) left.push([start, a, kind]);
      if (stop > b) left.push([b, stop, kind]);
    }
  }
  if (type) left.push([a, b, type]);
  state.spans = left.sort((x, y) => x[0] - y[0]);
  draw();
}

function draw() {
  const view = state.view;
  if (!view) return;
  $("shown").replaceChildren(...labeled(view, state.spans, false));
  $("place").textContent = state.index === null ? "pasted text" : `${state.index + 1} of ${state.about.items}${view.corrected ? ", corrected" : view.gold ? ", has gold" : ""}`;
  $("sure").textContent = view.probability === undefined ? "" : `probability ${view.probability.toPrecision(2)}` + (view.broken.length ? "; breaks " + view.broken.map((b) => b.rule).join(", ") : "");
}

function row(name, view, spans) {
  return make("div", { class: "row" }, make("span", {}, name), make("span", { class: "text" }, ...labeled(view, spans, true)));
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

async function show(keep) {
  const turn = ++state.turn;
  if (state.index === null && state.text === null) return;
  const view = await ask("view", { ...where(), rules: active() });
  if (turn !== state.turn) return;
  state.view = view;
  if (!keep) state.picked = null;
  $("conflict").textContent = view.conflict ? `No labeling obeys these rules together: ${view.conflict.join("; ")}` : "";
  const spans = view.spans || view.plain;
  state.spans = spans.slice();
  const rows = [];
  if (view.spans && !same(view.plain, view.spans)) rows.push(row("without rules", view, view.plain));
  if (view.gold && !same(view.gold, spans)) rows.push(row("gold", view, view.gold));
  $("changes").replaceChildren(...rows);
  $("alternatives").replaceChildren(...(view.alternatives || []).map((a) => row(Math.round(100 * a.share) + " %", view, a.spans)));
  draw();
}

function turnTo(index) {
  state.deeds += 1;
  state.index = index;
  return show();
}

function go(step) {
  if (!state.about.items) return;
  const from = state.index === null ? (step > 0 ? -1 : 0) : state.index;
  return turnTo((from + step + state.about.items) % state.about.items);
}

async function mostUseful() {
  const still = untouched();
  say("looking for the most useful text …");
  const found = await ask("next", { rules: active() });
  say(found.index === null ? "nothing is left to label" : "");
  if (found.index !== null && still()) await turnTo(found.index);
}

// --- rules ----------------------------------------------------------------------------------------

function card(rule) {
  const box = make("div", { class: "rule" + (rule.on ? "" : " off") });
  const error = make("pre", { role: "alert" });
  const price = make("output", {}, rule.weight === "hard" ? "hard" : String(rule.weight));
  const changed = () => { box.className = "rule" + (rule.on ? "" : " off"); refresh(); };
  const text = make("input", { type: "text", value: rule.rule, spellcheck: "false", "aria-label": "rule", on: { input: () => { rule.rule = text.value; rule.error = "not checked yet"; changed(); } } });
  const on = make("input", { type: "checkbox", checked: rule.on, "aria-label": "switch the rule on", on: { change: () => { rule.on = on.checked; changed(); } } });
  const weight = make("input", { type: "range", min: "0", max: "10", step: "0.1", value: rule.weight === "hard" ? 10 : rule.weight, disabled: rule.weight === "hard", "aria-label": "weight", on: { input: () => { rule.weight = Number(weight.value); price.textContent = weight.value; changed(); } } });
  const hard = make("input", { type: "checkbox", checked: rule.weight === "hard", "aria-label": "hard", on: { change: () => { rule.weight = hard.checked ? "hard" : Number(weight.value); weight.disabled = hard.checked; price.textContent = hard.checked ? "hard" : weight.value; changed(); } } });
  const gone = make("button", { title: "remove", "aria-label": "remove the rule", on: { click: () => { state.rules = state.rules.filter((other) => other !== rule); box.remove(); refresh(); } } }, "×");
  const count = make("span", { class: "dim" });
  rule.tell = (row) => {
    rule.error = row.error;
    error.textContent = row.error ? " ".repeat(Math.min(row.at, 60)) + "^\n" + row.error : "";
  };
  rule.count = (n) => { count.textContent = n ? `broken in ${n}` : ""; };
  if (rule.name) box.append(make("div", { class: "name" }, rule.name));
  box.append(text, error, make("div", { class: "bar" }, make("label", {}, on, " on"), make("label", {}, hard, " hard"), weight, price, count, gone));
  return box;
}

async function check() {
  const found = await ask("rules/check", { rules: state.rules.map(({ name, rule, weight, per }) => ({ name, rule, weight, per })) });
  found.rules.forEach((row, i) => state.rules[i] && state.rules[i].tell(row));
}

async function count() {
  if (!state.about.items) return;
  const turn = ++state.effectTurn;
  const rules = active();
  const begun = performance.now();
  $("effect").textContent = "counting …";
  const found = await ask("effect", { rules, before: state.own });
  if (turn !== state.effectTurn) return;
  const known = state.about.gold ? ` ${found.better} tokens better, ${found.worse} worse.` : "";
  const places = found.changed.slice(0, 12).map((i) => make("a", { href: "#", on: { click: guarded((event) => { event.preventDefault(); return turnTo(i); }) } }, String(i + 1)));
  $("effect").replaceChildren(`Against the model's own rules: ${found.changed.length} of ${found.items} texts change.${known} `, ...places);
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
  say(`saved; ${found.corrected} corrected`);
  if (still()) await turnTo(found.index);
}

async function retrain() {
  await ask("retrain", {});
  for (;;) {
    const now = await ask("retrain");
    const more = now.iteration ? `, iteration ${now.iteration}, objective ${now.objective}` : "";
    $("training").textContent = now.state === "done" ? `trained on ${now.texts} texts in ${now.seconds} s${more}` : now.state === "failed" ? now.message : `training on ${now.texts} texts${more}`;
    if (now.state !== "training") break;
    await new Promise((done) => setTimeout(done, 300));
  }
  state.about = await ask("about");
  drawTypes();
  await show();
  soon();
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
  $("types").replaceChildren(...buttons, make("button", { title: "no label (0)", on: { click: () => give(null) } }, make("small", {}, "0 "), "none"));
}

function keys(event) {
  if (["TEXTAREA", "INPUT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const last = state.view ? state.view.tokens.length : 0;
  if (event.key >= "1" && event.key <= "9") give(state.about.types[Number(event.key) - 1]);
  else if (event.key === "0") give(null);
  else if (event.key === "s") guarded(save)();
  else if (event.key === "u") $("useful").click();
  else if (event.key === "ArrowRight" && event.shiftKey && state.picked) { state.picked = [state.picked[0], Math.min(state.picked[1] + 1, last)]; draw(); }
  else if (event.key === "ArrowRight" && document.activeElement === $("shown")) { const i = state.picked ? Math.min(state.picked[1], last - 1) : 0; state.picked = [i, i + 1]; draw(); }
  else if (event.key === "ArrowLeft" && document.activeElement === $("shown")) { const i = state.picked ? Math.max(state.picked[0] - 1, 0) : 0; state.picked = [i, i + 1]; draw(); }
  else if (event.key === "ArrowRight") guarded(go)(1);
  else if (event.key === "ArrowLeft") guarded(go)(-1);
}

async function start() {
  state.about = await ask("about");
  $("about").textContent = `${state.about.model}, ${state.about.items} texts, ${state.about.gold} with gold`;
  state.own = state.about.rules.map((rule) => ({ ...rule }));
  state.about.rules.forEach((rule) => add({ ...rule }));
  drawTypes();
  $("prev").onclick = guarded(() => go(-1));
  $("next").onclick = guarded(() => go(1));
  $("useful").onclick = guarded(mostUseful);
  $("save").onclick = guarded(save);
  $("undo").onclick = guarded(() => show());
  $("retrain").onclick = guarded(retrain);
  $("add").onclick = () => add({ rule: state.about.types.length ? `segments('${state.about.types[0]}') <= 1` : "", weight: 1, on: true }).querySelector("input[type=text]").focus() || refresh();
  const read = guarded(() => { state.text = $("paste").value; return turnTo(null); });
  $("read").onclick = read;
  $("paste").onkeydown = (event) => { if (event.key === "Enter" && event.ctrlKey) read(); };
  $("get-model").onclick = guarded(() => fetched("model", "model.rf"));
  $("get-corrections").onclick = guarded(() => fetched("corrections", "corrections.jsonl"));
  $("get-rules").onclick = guarded(async () => { const found = await ask("rules/file", { rules: active() }); download("rules.yaml", new Blob([found.text])); });
  document.addEventListener("keydown", keys);
  if (state.about.items) { state.index = 0; await show(); soon(); }
  document.body.dataset.ready = "yes";
}

guarded(start)();
