// Predictions of the book: a form for each question, what it was told kept in this browser alone, and the page
// that compares all of it with what was measured, beside what `labcode exercises --export` wrote of exercises. The
// file of both has one form, which labcode/grading/predictions.py describes. What needs no page is exported; a test
// runs it.
(function () {
  "use strict";

  const KEPT = "labcode.predictions", KIND = "labcode-predictions", SCHEMA = 1;
  const SURE = [50, 70, 90]; // percent
  const ENOUGH = 3; // predictions, before anything is said about them together

  // What was predicted beside what was measured: right, and for numbers how many times as large it was.
  function judge(question, given) {
    if (question.value === null) return { right: given === question.shown, off: null };
    const off = given / question.value;
    return { right: Math.max(off, 1 / off) <= question.within * (1 + 1e-9), off: off };
  }

  function median(values) {
    const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
    return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }

  function together(rows) {
    const right = rows.filter((row) => row.right).length;
    const asked = rows.filter((row) => row.sure !== null);
    const sure = asked.length ? asked.reduce((sum, row) => sum + row.sure, 0) / asked.length / 100 : null;
    return { count: rows.length, right: right, share: right / rows.length, sure: sure, asked: asked.length,
      shareOfAsked: asked.length ? asked.filter((row) => row.right).length / asked.length : null };
  }

  // Of rows {part, right, off, sure, score}: all of them, by how sure one was, and by part of the book. Exercises
  // do not ask how sure one is, and pages give no score.
  function summary(rows) {
    const offs = rows.map((row) => row.off).filter((off) => off !== null);
    const by = (keys, of) => keys.map((key) => [key, rows.filter((row) => of(row) === key)])
      .filter(([, found]) => found.length).map(([key, found]) => ({ key: key, ...together(found) }));
    const scores = rows.map((row) => row.score).filter((score) => typeof score === "number");
    const part = (row) => row.part;
    return {
      score: scores.length ? scores.reduce((sum, one) => sum + one, 0) / scores.length : null,
      all: rows.length ? together(rows) : null,
      factor: offs.length ? median(offs.map((off) => Math.max(off, 1 / off))) : null,
      high: offs.filter((off) => off > 1).length,
      low: offs.filter((off) => off < 1).length,
      bySure: by(SURE, (row) => row.sure),
      byPart: by([...new Set(rows.map(part))], part),
    };
  }

  function verdict(one) {
    if (one.asked < ENOUGH) return "too few to say";
    const points = Math.round(100 * (one.sure - one.shareOfAsked));
    if (points > 10) return `overconfident by ${points} points`;
    return points < -10 ? `underconfident by ${-points} points` : "as sure as right";
  }

  // The file that is exported, from rows of the table.
  function written(rows) {
    const predictions = rows.map((row) => row.record || {
      id: row.question.id, page: row.question.id.split("#")[0], title: row.question.title, question: row.question.text,
      predicted: row.given, sure_percent: row.sure, at: row.at,
      measured: row.question.value === null ? row.question.shown : row.question.value, unit: row.question.unit,
      machine: row.question.machine, right: row.right, predicted_by_measured: row.off, score: null,
    });
    return JSON.stringify({ kind: KIND, schema: SCHEMA, predictions: predictions }, null, 1) + "\n";
  }

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const isText = (value) => typeof value === "string";
  const isInterval = (value) => Array.isArray(value) && value.length === 2 && value.every(isNumber) && value[0] <= value[1];
  const numberOrNull = [(value) => value === null || isNumber(value), "a number or null"];
  const text = [isText, "a text"];
  const MEMBERS = {
    id: text, page: text, title: text, question: text,
    predicted: [(value) => isNumber(value) || isText(value) || isInterval(value), "a number, a text or two numbers in order"],
    sure_percent: numberOrNull, at: text, measured: [(value) => isNumber(value) || isText(value), "a number or a text"],
    unit: text, machine: text, right: [(value) => typeof value === "boolean", "true or false"],
    predicted_by_measured: numberOrNull, score: numberOrNull,
  };

  // The predictions of a file; an error says what is wrong with it.
  function read(content) {
    let data;
    try {
      data = JSON.parse(content);
    } catch (error) {
      throw new Error("not a JSON file");
    }
    if (!data || data.kind !== KIND || !Array.isArray(data.predictions)) throw new Error("no file of predictions");
    if (data.schema !== SCHEMA) throw new Error(`schema ${data.schema}, and this page reads ${SCHEMA}`);
    return data.predictions.map((one, place) => {
      const found = {};
      for (const [name, [fits, words]] of Object.entries(MEMBERS)) {
        const value = one && typeof one === "object" ? one[name] : undefined;
        if (value === undefined) throw new Error(`prediction ${place + 1}: ${name} is missing`);
        if (!fits(value)) throw new Error(`prediction ${place + 1}: ${name} should be ${words}`);
        found[name] = value;
      }
      return found;
    });
  }

  // What is kept, with a file's predictions beside it: those of exercises, and of questions that have none yet.
  function merged(all, records, questions) {
    const asked = new Map(questions.map((one) => [one.id, one])), after = { ...all };
    let added = 0, known = 0, unknown = 0;
    for (const one of records) {
      const question = asked.get(one.id);
      const kind = question && (question.value === null ? isText : isNumber);
      if (Array.isArray(one.predicted)) {
        if (after[one.id]) known += 1;
        else added += 1;
        after[one.id] = { record: one };
      } else if (!question || !kind(one.predicted) || !SURE.includes(one.sure_percent)) {
        unknown += 1;
      } else if (after[one.id]) {
        known += 1;
      } else {
        added += 1;
        after[one.id] = { given: one.predicted, sure: one.sure_percent, at: one.at };
      }
    }
    return { all: after, added: added, known: known, unknown: unknown };
  }

  // Of what is kept a row each: of the questions of pages, then of exercises, which say themselves what was measured.
  function rowsOf(all, questions) {
    const rows = questions.filter((one) => all[one.id]).map((one) => ({
      question: one, part: one.part, score: null, ...all[one.id], ...judge(one, all[one.id].given),
    }));
    const folder = (path) => path.split("/")[0];
    for (const { record } of Object.values(all).filter((one) => one.record)) {
      const page = questions.find((one) => one.id.startsWith(`${record.page}#`));
      const part = questions.find((one) => folder(one.id) === folder(record.page));
      rows.push({
        question: {
          id: record.id, text: record.question, title: record.title, link: page ? page.link.split("#")[0] : null,
          value: record.measured, unit: record.unit, machine: record.machine,
          shown: isText(record.measured) ? record.measured : withUnit(record.measured, record.unit),
        },
        part: part ? part.part : folder(record.page), given: record.predicted, sure: record.sure_percent, at: record.at,
        right: record.right, off: record.predicted_by_measured, score: record.score, record: record,
      });
    }
    return rows;
  }

  let unkept = {}; // where the browser lets pages keep nothing
  function kept() {
    try {
      const found = JSON.parse(localStorage.getItem(KEPT) || "{}");
      return found && typeof found === "object" ? found : {};
    } catch (error) {
      return unkept;
    }
  }
  function keep(all) {
    unkept = all;
    try {
      localStorage.setItem(KEPT, JSON.stringify(all));
      return true;
    } catch (error) {
      return false;
    }
  }

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const THIN = "\u202f";
  function number(value) {
    const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
    return value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 0.1 ? 4 : digits });
  }
  function withUnit(value, unit) {
    return number(value) + (unit === "×" || !unit ? unit : THIN + unit);
  }
  const percent = (share) => `${Math.round(100 * share)}${THIN}%`;
  function said(question, given) {
    if (Array.isArray(given)) return `${number(given[0])} to ${withUnit(given[1], question.unit)}`;
    return question.value === null ? String(given) : withUnit(given, question.unit);
  }
  function apart(question, found) {
    if (typeof found.score === "number") return `${found.right ? "within" : "outside"}, score ${found.score.toFixed(2)}`;
    const word = found.right ? "right" : "not right";
    if (found.off === null) return word;
    if (Math.abs(found.off - 1) < 0.005) return "right on it";
    const factor = Math.max(found.off, 1 / found.off);
    const where = `${found.right ? "within" : "beyond"} ${number(question.within)}×`;
    return `${where}: ${number(factor)}× too ${found.off > 1 ? "high" : "low"}`;
  }

  function attach(root, place) {
    const question = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    if (!question.id) return;
    const asked = root.querySelector(".lab-predict-question");
    const folded = root.querySelector("details");
    const id = `predict-${place}`;
    asked.id = `${id}-question`;
    const listed = asked.querySelector(":scope > ul");
    const form = element("form", { class: "lab-predict-form", "aria-labelledby": asked.id });
    if (question.value === null) {
      const group = element("div", { role: "radiogroup", class: "choices", "aria-labelledby": asked.id });
      question.choices.forEach((choice) => {
        group.append(element("label", {}, element("input", { type: "radio", name: id, value: choice, required: "" }),
          " ", choice));
      });
      form.append(group);
    } else {
      const input = element("input", {
        type: "number", step: "any", min: "1e-12", required: "", inputmode: "decimal", name: id,
        "aria-labelledby": `${asked.id} ${id}-unit`, autocomplete: "off",
      });
      form.append(element("span", { class: "number" }, input, " ",
        element("span", { id: `${id}-unit` }, question.unit === "×" ? "times" : question.unit)));
    }
    const sure = element("select", { name: "sure" });
    SURE.forEach((one) => sure.append(element("option", { value: one }, `${one}${THIN}%`)));
    sure.value = "70";
    const within = question.value === null ? "that this is it" : `to be within a factor of ${number(question.within)}`;
    form.append(element("label", { class: "sure" }, "I am ", sure, ` sure ${within} `),
      element("button", { type: "submit" }, "Commit"));
    const told = element("output", { "aria-live": "polite", tabindex: "-1" });
    root.append(form, told, folded);

    function show(moveFocus) {
      const mine = kept()[question.id];
      form.hidden = folded.hidden = Boolean(mine);
      if (listed) listed.hidden = !mine;
      told.hidden = !mine;
      if (!mine) return;
      const found = judge(question, mine.given);
      root.classList.toggle("right", found.right);
      told.replaceChildren(
        element("span", {}, "You: ", element("b", {}, said(question, mine.given)), `, ${mine.sure}${THIN}% sure`),
        element("span", {}, "Measured: ", element("b", {}, question.shown), ` (${question.machine})`),
        element("span", { class: "verdict" }, `${found.right ? "✓" : "✗"} ${apart(question, found)}`),
      );
      if (moveFocus) told.focus({ preventScroll: true });
    }
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const value = new FormData(form).get(id);
      const given = question.value === null ? value : Number(value);
      const all = kept();
      all[question.id] = { given: given, sure: Number(sure.value), at: new Date().toISOString() };
      const stored = keep(all);
      show(true);
      if (!stored) told.append(element("span", {}, "This browser lets pages keep nothing: it is gone when you leave."));
    });
    show(false);
  }

  function table(caption, header, rows) {
    const head = element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)));
    const body = rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
    return element("div", { class: "pst-scrollable-table-container" }, element("table", { class: "table lab-table" },
      element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...body)));
  }

  function download(name, text) {
    const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: "application/json" })), download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function overview(root) {
    const questions = JSON.parse(root.querySelector("script[type='application/json']").textContent);
    const shown = element("div", { "aria-live": "polite" }), told = element("output", {});
    const chosen = element("input", { type: "file", accept: ".json,application/json" });
    chosen.addEventListener("change", async () => {
      if (!chosen.files.length) return;
      try {
        const found = merged(kept(), read(await chosen.files[0].text()), questions);
        const stored = keep(found.all);
        told.textContent = `${found.added} predictions added`
          + (found.known ? `, ${found.known} were here before` : "")
          + (found.unknown ? `, ${found.unknown} belong to no question of this book` : "")
          + (stored ? "." : ". This browser lets pages keep nothing: they are gone when you leave.");
        show();
      } catch (error) {
        told.textContent = `${chosen.files[0].name}: ${error.message}.`;
      }
      chosen.value = "";
    });
    root.append(shown, element("p", { class: "lab-predictions-buttons" },
      element("label", {}, "Import JSON, of exercises or of another browser: ", chosen)), told);

    function show() {
      const all = kept(), rows = rowsOf(all, questions), found = summary(rows);
      if (!rows.length) {
        shown.replaceChildren(element("p", {},
          `You have predicted nothing yet: ${questions.length} questions of the book wait, each before its measurement.`));
        return;
      }
      const first = element("p", { class: "lab-predictions-all" }, element("strong", {},
        `${found.all.right} of ${found.all.count} right`), ` (${percent(found.all.share)}). `);
      if (found.all.sure !== null) {
        first.append(`You were ${percent(found.all.sure)} sure on average: ${verdict(found.all)}.`);
      }
      if (found.factor !== null) {
        first.append(` A typical number is ${number(found.factor)}× off; ${found.high} were too high, ${found.low} too low.`);
      }
      if (found.score !== null) {
        first.append(` Intervals, in exercises, score ${found.score.toFixed(2)} of 1 on average.`);
      }
      const groups = (of, name) => of.map((one) => [
        name(one.key), String(one.count), `${one.right} (${percent(one.share)})`,
        one.sure === null ? "" : percent(one.sure), one.sure === null ? "" : verdict(one)]);
      const columns = ["predictions", "right", "sure on average", ""];
      const everything = rows.map((row) => {
        const forget = element("button", { type: "button", "aria-label": `Forget: ${row.question.text}` }, "Forget");
        forget.addEventListener("click", () => {
          const left = kept();
          delete left[row.question.id];
          keep(left);
          show();
        });
        return [
          element("span", {}, row.question.link ? element("a", { href: row.question.link }, row.question.title)
            : row.question.title, element("br"), row.question.text),
          said(row.question, row.given), row.question.shown, `${row.right ? "✓" : "✗"} ${apart(row.question, row)}`,
          row.sure === null ? "" : `${row.sure}${THIN}%`, forget];
      });
      const exported = element("button", { type: "button" }, "Export as JSON");
      exported.addEventListener("click", () => download("predictions.json", written(rows)));
      const erase = element("button", { type: "button" }, "Erase all");
      erase.addEventListener("click", () => {
        if (window.confirm(`Erase all ${rows.length} predictions?`)) {
          keep({});
          show();
        }
      });
      shown.replaceChildren(
        first,
        table("By how sure you were", ["how sure", ...columns], groups(found.bySure, (key) => `${key}${THIN}%`)),
        table("By part of the book", ["part", ...columns], groups(found.byPart, (key) => key)),
        table("Every prediction", ["question", "you", "measured", "", "sure", ""], everything),
        element("p", { class: "lab-predictions-buttons" }, exported, " ", erase),
      );
    }
    show();
    addEventListener("storage", (event) => { if (event.key === KEPT) show(); });
  }

  if (typeof module !== "undefined" && module.exports) {
    module.exports = { judge, summary, verdict, written, read, merged, rowsOf };
  }
  if (typeof document !== "undefined") {
    const start = () => {
      document.querySelectorAll(".lab-predict").forEach(attach);
      document.querySelectorAll(".lab-predictions").forEach(overview);
    };
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
    else start();
  }
})();
